// HTTP/2 by hand for load generation; see the header. One thread.
#include "load_conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_HEAD       9u
#define TYPE_DATA        0u
#define TYPE_HEADERS     1u
#define TYPE_RST_STREAM  3u
#define TYPE_SETTINGS    4u
#define TYPE_PING        6u
#define TYPE_GOAWAY      7u
#define FLAG_END_STREAM  1u
#define FLAG_ACK         1u
#define FLAG_END_HEADERS 4u
#define WINDOW_STEP      (1u << 20)
#define WINDOW_ALL       0x7fffffffu
#define WINDOW_DEFAULT   65535u

static void put_u32(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)(value >> 24);
    out[1] = (uint8_t)(value >> 16);
    out[2] = (uint8_t)(value >> 8);
    out[3] = (uint8_t)value;
}

static uint32_t get_u32(const uint8_t *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

static void add_frame(struct load_conn *conn, uint8_t type, uint8_t flags, uint32_t stream,
                      const uint8_t *payload, uint32_t size)
{
    if (LOAD_OUTPUT_BYTES - conn->out_bytes < FRAME_HEAD + size) {
        conn->failed = true; // callers leave room; only a peer gone mad gets here
        return;
    }
    uint8_t *at = conn->out + conn->out_bytes;
    at[0] = (uint8_t)(size >> 16);
    at[1] = (uint8_t)(size >> 8);
    at[2] = (uint8_t)size;
    at[3] = type;
    at[4] = flags;
    put_u32(at + 5, stream);
    if (size > 0) {
        memcpy(at + FRAME_HEAD, payload, size);
    }
    conn->out_bytes += FRAME_HEAD + size;
}

static void add_preface(struct load_conn *conn)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    memcpy(conn->out, magic, sizeof(magic) - 1);
    conn->out_bytes = sizeof(magic) - 1;
    // HEADER_TABLE_SIZE 0, ENABLE_PUSH 0, INITIAL_WINDOW_SIZE all.
    uint8_t settings[18] = {0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4};
    put_u32(settings + 14, WINDOW_ALL);
    add_frame(conn, TYPE_SETTINGS, 0, 0, settings, sizeof(settings));
    uint8_t window[4];
    put_u32(window, WINDOW_ALL - WINDOW_DEFAULT);
    add_frame(conn, 8, 0, 0, window, sizeof(window));
}

enum base_status load_conn_open(struct load_conn *conn, SSL_CTX *tls)
{
    const struct load_plan *plan = conn->plan;
    conn->fd = socket(plan->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (conn->fd < 0) {
        return BASE_ERR_IO;
    }
    int one = 1;
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    uint32_t slots = 1;
    while (slots < plan->streams * 2) {
        slots *= 2;
    }
    conn->slot_mask = slots - 1;
    conn->started_us = calloc(slots, sizeof(*conn->started_us));
    conn->out = malloc(LOAD_OUTPUT_BYTES);
    conn->next_stream = 1;
    if (conn->started_us == NULL || conn->out == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (tls != NULL) {
        conn->ssl = SSL_new(tls);
        if (conn->ssl == NULL || SSL_set_fd(conn->ssl, conn->fd) != 1) {
            return BASE_ERR_NOMEM;
        }
        SSL_set_connect_state(conn->ssl);
    }
    add_preface(conn);
    if (connect(conn->fd, (const struct sockaddr *)&plan->address, plan->address_size) != 0 &&
        errno != EINPROGRESS) {
        return BASE_ERR_IO;
    }
    return BASE_OK;
}

void load_conn_close(struct load_conn *conn)
{
    SSL_free(conn->ssl);
    conn->ssl = NULL;
    if (conn->fd >= 0) {
        close(conn->fd);
        conn->fd = -1;
    }
    free(conn->started_us);
    free(conn->out);
    conn->started_us = NULL;
    conn->out = NULL;
}

// ---- Reading

static void stream_ended(struct load_conn *conn, uint32_t stream, uint64_t now_us)
{
    conn->open--;
    if (conn->totals->counting) {
        conn->totals->done++;
        base_hist_add(&conn->totals->latency_us,
                      now_us - conn->started_us[(stream >> 1) & conn->slot_mask]);
    }
}

// First byte of a response's header block: the status in its indexed form (RFC 7541, appendix A).
static void count_status(struct load_conn *conn)
{
    const uint8_t *at = conn->payload;
    const uint8_t *end = at + conn->payload_bytes;
    while (at < end && (*at & 0xe0) == 0x20) {
        at++; // change of the table size
    }
    struct load_totals *totals = conn->totals;
    if (!totals->counting) {
        return;
    }
    if (at < end && *at == 0x89) {
        totals->status_204++;
    } else if (at < end && *at == 0x88) {
        totals->status_200++;
    } else {
        totals->status_other++;
    }
}

static void on_data(struct load_conn *conn, uint32_t size)
{
    conn->totals->body_bytes += size;
    conn->window_debt += size;
    if (conn->window_debt >= WINDOW_STEP) {
        uint8_t window[4];
        put_u32(window, conn->window_debt);
        add_frame(conn, 8, 0, 0, window, sizeof(window));
        conn->window_debt = 0;
    }
    if (conn->plan->mode == LOAD_HINTS && conn->payload_bytes >= 11) {
        if (memcmp(conn->payload, "event: hint", 11) == 0) {
            conn->totals->hints++;
        } else if (memcmp(conn->payload, "event: hell", 11) == 0) {
            conn->totals->streams++;
        }
    }
}

static void on_frame(struct load_conn *conn, uint64_t now_us)
{
    uint32_t size = (uint32_t)conn->head[0] << 16 | (uint32_t)conn->head[1] << 8 | conn->head[2];
    uint8_t type = conn->head[3];
    uint8_t flags = conn->head[4];
    uint32_t stream = get_u32(conn->head + 5) & WINDOW_ALL;
    switch (type) {
    case TYPE_DATA:
        on_data(conn, size);
        break;
    case TYPE_HEADERS:
        count_status(conn);
        break;
    case TYPE_RST_STREAM:
        conn->totals->resets++;
        stream_ended(conn, stream, now_us);
        return;
    case TYPE_SETTINGS:
        if ((flags & FLAG_ACK) == 0) {
            add_frame(conn, TYPE_SETTINGS, FLAG_ACK, 0, NULL, 0);
        }
        return;
    case TYPE_PING:
        if ((flags & FLAG_ACK) == 0) {
            add_frame(conn, TYPE_PING, FLAG_ACK, 0, conn->payload, 8);
        }
        return;
    case TYPE_GOAWAY:
        conn->goaway = true;
        return;
    default:
        return;
    }
    if ((flags & FLAG_END_STREAM) != 0) {
        stream_ended(conn, stream, now_us);
    }
}

static void parse(struct load_conn *conn, const uint8_t *bytes, size_t size, uint64_t now_us)
{
    while (size > 0 && !conn->failed) {
        if (conn->head_bytes < FRAME_HEAD) {
            size_t take =
                FRAME_HEAD - conn->head_bytes < size ? FRAME_HEAD - conn->head_bytes : size;
            memcpy(conn->head + conn->head_bytes, bytes, take);
            conn->head_bytes += (uint32_t)take;
            bytes += take;
            size -= take;
            if (conn->head_bytes < FRAME_HEAD) {
                return;
            }
            conn->left =
                (uint32_t)conn->head[0] << 16 | (uint32_t)conn->head[1] << 8 | conn->head[2];
            conn->payload_bytes = 0;
        }
        size_t take = conn->left < size ? conn->left : size;
        size_t keep = sizeof(conn->payload) - conn->payload_bytes;
        keep = keep < take ? keep : take;
        memcpy(conn->payload + conn->payload_bytes, bytes, keep);
        conn->payload_bytes += (uint32_t)keep;
        conn->left -= (uint32_t)take;
        bytes += take;
        size -= take;
        if (conn->left == 0) {
            conn->head_bytes = 0;
            on_frame(conn, now_us);
        }
    }
}

static bool would_block(struct load_conn *conn, int rv)
{
    if (conn->ssl != NULL) {
        int error = SSL_get_error(conn->ssl, rv);
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    }
    return errno == EAGAIN || errno == EINTR || errno == ENOTCONN || errno == EINPROGRESS;
}

static void read_all(struct load_conn *conn, uint8_t *buffer, size_t room, uint64_t now_us)
{
    for (;;) {
        ERR_clear_error();
        ssize_t size = conn->ssl != NULL ? SSL_read(conn->ssl, buffer, (int)room)
                                         : recv(conn->fd, buffer, room, 0);
        if (size <= 0) {
            conn->failed = conn->failed || size == 0 || !would_block(conn, (int)size);
            if (conn->ssl != NULL && size == 0) {
                conn->failed = true;
            }
            return;
        }
        conn->connected = true;
        parse(conn, buffer, (size_t)size, now_us);
        if (conn->ssl == NULL && (size_t)size < room) {
            return;
        }
    }
}

// ---- Writing

bool load_conn_start(struct load_conn *conn, uint64_t intended_us)
{
    const struct load_plan *plan = conn->plan;
    const struct load_requests *requests = conn->requests;
    uint32_t index = (uint32_t)(*conn->next_request % requests->count);
    uint32_t from = requests->offsets[index];
    uint32_t size = requests->offsets[index + 1] - from;
    if (conn->open >= plan->streams || conn->goaway || conn->failed ||
        LOAD_OUTPUT_BYTES - conn->out_bytes < size + 1024 || conn->next_stream > WINDOW_ALL - 2) {
        return false;
    }
    add_frame(conn, TYPE_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, conn->next_stream,
              requests->bytes + from, size);
    conn->started_us[(conn->next_stream >> 1) & conn->slot_mask] = intended_us;
    conn->next_stream += 2;
    conn->open++;
    (*conn->next_request)++;
    conn->totals->started++;
    if (plan->mode == LOAD_IDLE && conn->next_stream > 1) {
        conn->goaway = true; // one is enough
    }
    return true;
}

static void start_requests(struct load_conn *conn, uint64_t now_us)
{
    const struct load_plan *plan = conn->plan;
    while ((plan->requests == 0 || *conn->next_request < plan->requests) &&
           load_conn_start(conn, now_us)) {
    }
}

static void write_all(struct load_conn *conn)
{
    while (conn->out_at < conn->out_bytes) {
        ERR_clear_error();
        size_t left = conn->out_bytes - conn->out_at;
        ssize_t size = conn->ssl != NULL
                           ? SSL_write(conn->ssl, conn->out + conn->out_at, (int)left)
                           : send(conn->fd, conn->out + conn->out_at, left, MSG_NOSIGNAL);
        if (size <= 0) {
            conn->failed = conn->failed || !would_block(conn, (int)size);
            return;
        }
        conn->out_at += (size_t)size;
    }
    conn->out_at = 0;
    conn->out_bytes = 0;
}

bool load_conn_wants_write(const struct load_conn *conn)
{
    return conn->out_at < conn->out_bytes && (conn->ssl == NULL || SSL_is_init_finished(conn->ssl));
}

void load_conn_step(struct load_conn *conn, uint8_t *buffer, size_t buffer_bytes, bool may_start,
                    uint64_t now_us)
{
    if (conn->out_at > 0) {
        write_all(conn); // frames are only added to an empty buffer's end
    }
    read_all(conn, buffer, buffer_bytes, now_us);
    if (may_start && !conn->failed && conn->out_at == 0) {
        start_requests(conn, now_us);
    }
    if (!conn->failed) {
        write_all(conn);
    }
}
