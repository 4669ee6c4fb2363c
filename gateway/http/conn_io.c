// System calls and OpenSSL calls of a connection; called by conn.c on the worker's thread. They are
// here alone, so that the rest of a connection does not know whether it is clear or TLS. Nothing
// blocks: BUSY says that the socket has no more, CLOSED that the peer ended. With TLS 1.3 early
// data a connection reads before its handshake is complete (conn->early); what may be done with
// that is decided elsewhere.
#include "http/conn_io.h"

#include "base/check.h"
#include "http/conn.h"
#include "http/loop/figure.h"
#include "http/tls/tls_identity.h"
#include "http/worker.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static enum base_status tls_failed(struct gw_conn *conn, int rv)
{
    switch (SSL_get_error(conn->ssl, rv)) {
    case SSL_ERROR_WANT_READ:
        return BASE_ERR_BUSY;
    case SSL_ERROR_WANT_WRITE:
        conn->want_write = true;
        return BASE_ERR_BUSY;
    case SSL_ERROR_ZERO_RETURN:
        return BASE_ERR_CLOSED;
    default:
        return BASE_ERR_IO;
    }
}

static enum base_status errno_failed(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? BASE_ERR_BUSY : BASE_ERR_IO;
}

// ---- Handshake

bool gw_conn_speaks_h2(const struct gw_conn *conn)
{
    const unsigned char *protocol = NULL;
    unsigned int size = 0;
    SSL_get0_alpn_selected(conn->ssl, &protocol, &size);
    return size == 2 && memcmp(protocol, "h2", 2) == 0;
}

// A client that names no protocol, or HTTP/1.1, may speak that; its first bytes say.
static enum base_status check_protocol(const struct gw_conn *conn)
{
    const unsigned char *protocol = NULL;
    unsigned int size = 0;
    SSL_get0_alpn_selected(conn->ssl, &protocol, &size);
    bool known =
        size == 0 || gw_conn_speaks_h2(conn) || (size == 8 && memcmp(protocol, "http/1.1", 8) == 0);
    return known ? BASE_OK : BASE_ERR_DENIED;
}

// BUSY: the handshake goes on when the peer says more.
static enum base_status shake(struct gw_conn *conn)
{
    int rv = SSL_do_handshake(conn->ssl);
    if (rv != 1) {
        return tls_failed(conn, rv) == BASE_ERR_BUSY ? BASE_ERR_BUSY : BASE_ERR_IO;
    }
    BASE_TRY(check_protocol(conn));
    struct gw_transport_stats *stats = conn->worker->stats;
    gw_stat_add(&stats->tls_handshakes, 1);
    if (SSL_session_reused(conn->ssl)) {
        gw_stat_add(&stats->tls_resumed, 1);
    }
    if (conn->identity == NULL) {
        conn->identity = gw_tls_identity_of(conn->ssl);
    }
    conn->proven = conn->proven || conn->identity != NULL;
    return BASE_OK;
}

// Bytes that came before the handshake is complete. CLOSED: there are no more of those.
static enum base_status read_early(struct gw_conn *conn, uint8_t *out, size_t room,
                                   size_t *out_size)
{
    switch (SSL_read_early_data(conn->ssl, out, room, out_size)) {
    case SSL_READ_EARLY_DATA_SUCCESS:
        return BASE_OK;
    case SSL_READ_EARLY_DATA_FINISH:
        conn->early_read = true;
        return BASE_ERR_CLOSED;
    default:
        return tls_failed(conn, 0) == BASE_ERR_BUSY ? BASE_ERR_BUSY : BASE_ERR_IO;
    }
}

enum base_status gw_conn_handshake(struct gw_conn *conn, uint8_t *out, size_t room,
                                   size_t *out_size)
{
    ERR_clear_error();
    *out_size = 0;
    if (!conn->early_read && SSL_get_max_early_data(conn->ssl) > 0) {
        enum base_status status = read_early(conn, out, room, out_size);
        if (status == BASE_OK) {
            BASE_TRY(check_protocol(conn));
            conn->early = true;
            conn->identity = gw_tls_identity_of(conn->ssl);
            gw_stat_add(&conn->worker->stats->tls_early, 1);
            return BASE_OK;
        }
        if (status != BASE_ERR_CLOSED) {
            return status;
        }
    }
    return shake(conn);
}

// ---- Bytes

static enum base_status read_tls(struct gw_conn *conn, uint8_t *out, size_t room, size_t *out_size)
{
    ERR_clear_error();
    if (conn->early) {
        enum base_status status =
            conn->early_read ? BASE_ERR_CLOSED : read_early(conn, out, room, out_size);
        if (status != BASE_ERR_CLOSED) {
            return status;
        }
        BASE_TRY(shake(conn));
        conn->early = false;
    }
    int rv = SSL_read_ex(conn->ssl, out, room, out_size);
    return rv == 1 ? BASE_OK : tls_failed(conn, rv);
}

enum base_status gw_conn_read(struct gw_conn *conn, uint8_t *out, size_t room, size_t *out_size)
{
    if (conn->ssl != NULL) {
        BASE_TRY(read_tls(conn, out, room, out_size));
    } else {
        ssize_t size = recv(conn->fd, out, room, 0);
        if (size < 0) {
            return errno_failed();
        }
        if (size == 0) {
            return BASE_ERR_CLOSED;
        }
        *out_size = (size_t)size;
    }
    gw_stat_add(&conn->worker->stats->bytes_in, *out_size);
    return BASE_OK;
}

enum base_status gw_conn_write(struct gw_conn *conn, const uint8_t *bytes, size_t size,
                               size_t *out_size)
{
    base_assert(size > 0);
    if (conn->ssl != NULL) {
        ERR_clear_error();
        size_t written = 0;
        int rv = conn->early ? SSL_write_early_data(conn->ssl, bytes, size, &written)
                             : SSL_write_ex(conn->ssl, bytes, size, &written);
        if (rv != 1) {
            return tls_failed(conn, rv);
        }
        *out_size = written;
    } else {
        ssize_t written = send(conn->fd, bytes, size, MSG_NOSIGNAL);
        if (written < 0) {
            return errno_failed();
        }
        *out_size = (size_t)written;
    }
    gw_stat_add(&conn->worker->stats->bytes_out, *out_size);
    return BASE_OK;
}
