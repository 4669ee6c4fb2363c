// HTTP/1.1 by hand for calls of models; see the header. Replies must say their length, as those of
// ours and of the peer do. One thread; nothing here blocks but connecting, to this machine.
#include "infer_caller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_BYTES 64
#define HEAD_MAX   8192

static enum base_status resolve(struct infer_server *server, const char *host, uint64_t port)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&server->address;
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    server->address_size = sizeof(*address);
    return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? BASE_OK : BASE_ERR_INVALID;
}

// The path within `url`; NULL when it is none of ours.
static const char *parse_url(struct infer_server *server, const char *url)
{
    static const char scheme[] = "http://";
    char host[HOST_BYTES];
    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0) {
        return NULL;
    }
    const char *from = url + sizeof(scheme) - 1;
    const char *colon = strchr(from, ':');
    const char *slash = strchr(from, '/');
    uint64_t port = 0;
    if (colon == NULL || slash == NULL || slash < colon || (size_t)(colon - from) >= sizeof(host)) {
        return NULL;
    }
    memcpy(host, from, (size_t)(colon - from));
    host[colon - from] = '\0';
    struct base_str digits = {colon + 1, (size_t)(slash - colon - 1)};
    if (base_str_u64(digits, &port) != BASE_OK || port > UINT16_MAX) {
        return NULL;
    }
    return resolve(server, host, port) == BASE_OK ? slash : NULL;
}

// The head of the request; 0 when it does not fit into HEAD_MAX.
static size_t write_head(uint8_t *out, const char *path, const char *headers, size_t body_bytes)
{
    int size = snprintf((char *)out, HEAD_MAX,
                        "POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: %zu\r\n"
                        "content-type: application/octet-stream\r\n%s\r\n",
                        path, body_bytes, headers);
    return size > 0 && size < HEAD_MAX ? (size_t)size : 0;
}

enum base_status infer_server_make(struct infer_server *server, const char *url,
                                   const char *headers, const char *body_path,
                                   struct base_error *error)
{
    const char *path = parse_url(server, url);
    if (path == NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "'%s' is not http://IP:PORT/PATH", url);
    }
    FILE *file = fopen(body_path, "re");
    struct stat about;
    if (file == NULL || fstat(fileno(file), &about) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%s cannot be opened", body_path);
    }
    size_t body_bytes = (size_t)about.st_size;
    server->request = malloc(HEAD_MAX + body_bytes);
    size_t head_bytes =
        server->request != NULL ? write_head(server->request, path, headers, body_bytes) : 0;
    bool whole =
        head_bytes > 0 && fread(server->request + head_bytes, 1, body_bytes, file) == body_bytes;
    (void)fclose(file);
    server->request_bytes = head_bytes + body_bytes;
    return whole ? BASE_OK
                 : base_error_set(error, BASE_ERR_INVALID,
                                  "%s cannot be read, or the headers are too long", body_path);
}

static enum base_status reconnect(struct infer_caller *caller)
{
    const struct infer_server *server = caller->server;
    if (caller->fd >= 0) {
        close(caller->fd);
    }
    caller->opened++;
    caller->fd = socket(server->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (caller->fd < 0 ||
        connect(caller->fd, (const struct sockaddr *)&server->address, server->address_size) != 0) {
        return BASE_ERR_IO;
    }
    int one = 1;
    (void)setsockopt(caller->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    int flags = fcntl(caller->fd, F_GETFL);
    return fcntl(caller->fd, F_SETFL, flags | O_NONBLOCK) == 0 ? BASE_OK : BASE_ERR_IO;
}

enum base_status infer_caller_open(struct infer_caller *caller, const struct infer_server *server)
{
    caller->server = server;
    caller->fd = -1;
    return reconnect(caller);
}

void infer_caller_begin(struct infer_caller *caller, uint64_t meant_us)
{
    caller->busy = true;
    caller->meant_us = meant_us;
    caller->sent = 0;
    caller->head_bytes = 0;
    caller->head_whole = false;
    caller->closes = false;
    caller->body_left = 0;
    caller->status = 0;
}

bool infer_caller_sends(const struct infer_caller *caller)
{
    return caller->busy && caller->sent < caller->server->request_bytes;
}

// Sends until the socket is full; false when the connection is lost.
static bool send_more(struct infer_caller *caller)
{
    const struct infer_server *server = caller->server;
    while (infer_caller_sends(caller)) {
        ssize_t size = send(caller->fd, server->request + caller->sent,
                            server->request_bytes - caller->sent, MSG_NOSIGNAL);
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        caller->sent += (size_t)size;
    }
    return true;
}

// The value of a header in a head that ends with NUL; NULL when it is not there.
static const char *header_value(const char *head, const char *name)
{
    const char *line = strcasestr(head, name);
    return line != NULL ? line + strlen(name) : NULL;
}

static bool parse_head(struct infer_caller *caller)
{
    static const char version[] = "HTTP/1.1 ";
    const char *length = header_value(caller->head, "\r\ncontent-length: ");
    const char *connection = header_value(caller->head, "\r\nconnection: ");
    if (strncmp(caller->head, version, sizeof(version) - 1) != 0 || length == NULL) {
        return false;
    }
    uint64_t status = 0;
    struct base_str code = {caller->head + sizeof(version) - 1, 3};
    struct base_str digits = {length, strcspn(length, "\r")};
    if (base_str_u64(code, &status) != BASE_OK ||
        base_str_u64(digits, &caller->body_left) != BASE_OK) {
        return false;
    }
    caller->status = (int)status;
    caller->closes = connection != NULL && strncasecmp(connection, "close", 5) == 0;
    caller->head_whole = true;
    return true;
}

// Takes bytes of a reply; false when they are none.
static bool take(struct infer_caller *caller, const uint8_t *bytes, size_t size)
{
    if (!caller->head_whole) {
        size_t room = sizeof(caller->head) - 1 - caller->head_bytes;
        size_t more = size < room ? size : room;
        size_t before = caller->head_bytes;
        memcpy(caller->head + before, bytes, more);
        caller->head_bytes += more;
        caller->head[caller->head_bytes] = '\0';
        char *end = strstr(caller->head, "\r\n\r\n");
        if (end == NULL) {
            return more == size;
        }
        size_t head_bytes = (size_t)(end - caller->head) + 4;
        end[2] = '\0';
        if (head_bytes <= before || !parse_head(caller)) {
            return false;
        }
        bytes += head_bytes - before;
        size -= head_bytes - before;
    }
    if (size > caller->body_left) {
        return false;
    }
    caller->body_left -= size;
    return true;
}

static enum infer_progress lose(struct infer_caller *caller)
{
    bool was_busy = caller->busy;
    caller->busy = false;
    caller->status = 0;
    if (reconnect(caller) != BASE_OK) {
        fprintf(stderr, "walle-infer-load: the server is gone\n");
        exit(EXIT_FAILURE);
    }
    return was_busy ? INFER_DONE : INFER_WAITS;
}

// A server may answer before it has the whole body. Where it does not close, the rest is sent, and
// the connection goes on.
static bool is_complete(const struct infer_caller *caller)
{
    return caller->busy && caller->head_whole && caller->body_left == 0 &&
           (caller->closes || !infer_caller_sends(caller));
}

static enum infer_progress complete(struct infer_caller *caller)
{
    if (caller->closes) {
        int status = caller->status;
        enum infer_progress progress = lose(caller);
        caller->status = status;
        return progress;
    }
    caller->busy = false;
    return INFER_DONE;
}

enum infer_progress infer_caller_step(struct infer_caller *caller, uint8_t *buffer, size_t size)
{
    bool sends = send_more(caller);
    while (!is_complete(caller)) { // a server that refuses may have answered before it closed
        ssize_t got = recv(caller->fd, buffer, size, 0);
        if (got < 0 && errno == EAGAIN) {
            return sends ? INFER_WAITS : lose(caller);
        }
        if (got <= 0 || !caller->busy || !take(caller, buffer, (size_t)got)) {
            return lose(caller);
        }
    }
    return complete(caller);
}
