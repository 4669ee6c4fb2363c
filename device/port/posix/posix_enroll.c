// Enrolment over the HTTP/2 client, before the runtime starts: the agent (device_agent.c) and the
// examples call it on the thread of the event base, whose loop it runs until there is an answer or
// ANSWER_TIMEOUT_S is over. It is no business of the runtime, which begins with a credential. The
// key of a try is on disk before it is sent and is dropped only when it was answered, so that a
// device whose answer got lost asks again as the same one.
#include "posix/posix_enroll.h"

#include "posix/posix_tls.h"

#include "base/prng.h"
#include "base/os/regular_file.h"
#include "base/os/write_all.h"
#include "base/span.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_S 30
#define BEARER_MAX       300
#define PROBLEM_MAX      512 // of a refusal's body
#define HOST_SHOWN_MAX   40
#define DETAIL_MAX       100 // of its text that is shown
#define FILE_MODE        0600
#define DIR_MODE         0700
#define KEY_NAME         "enrolment.key"
#define KEY_PREFIX       "wek_"
#define KEY_PREFIX_BYTES 4u
#define KEY_DRAWS        4u // of 8 bytes
#define KEY_TEXT_BYTES   (KEY_PREFIX_BYTES + BASE_B64_ENCODED(8u * KEY_DRAWS))

struct attempt {
    struct event_base *base;
    int status;
    enum base_status ended; // BASE_ERR_TIMEOUT until the answer is whole
    bool too_long;          // for an enrolment
    bool unbelieved;        // the certificate
    const char *why;        // there was no answer; NULL: `ended` says it
    size_t size;
    uint8_t body[WIRE_ENROLMENT_BYTES_MAX];
    char problem[PROBLEM_MAX + 1];
    size_t problem_size;
};

static enum base_status system_failed(struct base_error *error, const char *path)
{
    return base_error_set(error, BASE_ERR_IO, "%.100s: %s", path, strerror(errno));
}

static bool path_of(const char *dir, const char *name, char out[PATH_MAX])
{
    int size = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return size > 0 && size < PATH_MAX;
}

static enum base_status take(const uint8_t *bytes, size_t size, struct posix_credential *out)
{
    struct wire_enrolment enrolment;
    BASE_TRY(wire_enrolment_parse(bytes, size, &enrolment));
    memset(out, 0, sizeof(*out));
    out->device_id = enrolment.device_id;
    memcpy(out->text, enrolment.credential.data, enrolment.credential.size);
    return BASE_OK;
}

enum base_status posix_credential_load(const char *dir, struct posix_credential *out,
                                       struct base_error *error)
{
    char path[PATH_MAX];
    uint8_t bytes[WIRE_ENROLMENT_BYTES_MAX + 1];
    if (!path_of(dir, "credential", path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", dir);
    }
    int fd = -1;
    BASE_TRY(base_regular_open(path, O_RDONLY | O_NOFOLLOW, &fd, error));
    ssize_t size = read(fd, bytes, sizeof(bytes));
    close(fd);
    if (size < 0) {
        return system_failed(error, path);
    }
    return take(bytes, (size_t)size, out) == BASE_OK
               ? BASE_OK
               : base_error_set(error, BASE_ERR_CORRUPT, "%.100s: damaged: %s", path,
                                size == 0 ? "it is empty" : "it holds no credential");
}

enum base_status posix_credential_set_aside(const char *dir, struct base_error *error)
{
    char path[PATH_MAX];
    char aside[PATH_MAX];
    if (!path_of(dir, "credential", path) || !path_of(dir, POSIX_CREDENTIAL_ASIDE, aside)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", dir);
    }
    return rename(path, aside) == 0 ? BASE_OK : system_failed(error, aside);
}

// Replaces DIR/`name`, by way of DIR/`beside`.
static enum base_status keep(const char *dir, const char *name, const char *beside,
                             struct base_span bytes, struct base_error *error)
{
    char path[PATH_MAX];
    char fresh[PATH_MAX];
    if (!path_of(dir, name, path) || !path_of(dir, beside, fresh)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", dir);
    }
    if (mkdir(dir, DIR_MODE) != 0 && errno != EEXIST) {
        return system_failed(error, dir);
    }
    (void)unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd < 0) {
        return system_failed(error, fresh);
    }
    if (base_write_all(fd, bytes.data, bytes.size) != BASE_OK || fsync(fd) != 0) {
        (void)system_failed(error, path); // first of all: what follows has an errno of its own
        close(fd);
        (void)unlink(fresh);
        return BASE_ERR_IO;
    }
    if (close(fd) != 0 || rename(fresh, path) != 0) {
        return system_failed(error, path);
    }
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = folder >= 0 && fsync(folder) == 0;
    enum base_status status = ok ? BASE_OK : system_failed(error, dir);
    if (folder >= 0) {
        close(folder);
    }
    return status;
}

// ---- The key

// The key of an enrolment that was begun before. NOT_FOUND: there is none, or it is cut short.
static enum base_status key_read(const char *dir, char out[KEY_TEXT_BYTES + 1],
                                 struct base_error *error)
{
    char path[PATH_MAX];
    int fd = -1;
    if (!path_of(dir, KEY_NAME, path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", dir);
    }
    BASE_TRY(base_regular_open(path, O_RDONLY | O_NOFOLLOW, &fd, error));
    ssize_t size = read(fd, out, KEY_TEXT_BYTES + 1);
    close(fd);
    out[KEY_TEXT_BYTES] = '\0';
    bool ok = size == KEY_TEXT_BYTES && strncmp(out, KEY_PREFIX, KEY_PREFIX_BYTES) == 0 &&
              wire_credential_ok(base_str_of(out));
    return ok ? BASE_OK : BASE_ERR_NOT_FOUND;
}

// On disk before it is sent: after a crash the device asks again as the same.
static enum base_status key_take(const char *dir, char out[KEY_TEXT_BYTES + 1],
                                 struct base_error *error)
{
    uint64_t draws[KEY_DRAWS];
    enum base_status status = key_read(dir, out, error);
    if (status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    for (size_t i = 0; i < KEY_DRAWS; i++) {
        draws[i] = base_entropy_u64();
    }
    memcpy(out, KEY_PREFIX, KEY_PREFIX_BYTES);
    size_t size = base_b64_encode((const uint8_t *)draws, sizeof(draws), out + KEY_PREFIX_BYTES);
    out[KEY_PREFIX_BYTES + size] = '\0';
    return keep(dir, KEY_NAME, KEY_NAME ".new",
                (struct base_span){(const uint8_t *)out, KEY_PREFIX_BYTES + size}, error);
}

// It has been answered: what is asked from now on is another enrolment.
static void key_drop(const char *dir)
{
    char path[PATH_MAX];
    if (path_of(dir, KEY_NAME, path)) {
        (void)unlink(path);
    }
}

// ---- The request

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)ctx;
    ((struct attempt *)user)->status = head->status;
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    struct attempt *attempt = user;
    (void)ctx;
    if (attempt->status != 201) {
        size_t room = PROBLEM_MAX - attempt->problem_size;
        size_t part = size < room ? size : room;
        memcpy(attempt->problem + attempt->problem_size, bytes, part);
        attempt->problem_size += part;
        return;
    }
    if (attempt->too_long || size > sizeof(attempt->body) - attempt->size) {
        attempt->too_long = true; // and stays so: what follows has no place either
        return;
    }
    memcpy(attempt->body + attempt->size, bytes, size);
    attempt->size += size;
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    struct attempt *attempt = user;
    (void)ctx;
    attempt->ended = status;
    event_base_loopbreak(attempt->base);
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    struct attempt *attempt = ctx;
    if (status != BASE_OK) {
        attempt->why = h2_client_why(client);
        attempt->unbelieved = h2_client_unbelieved(client);
        attempt->ended = attempt->ended == BASE_ERR_TIMEOUT ? status : attempt->ended;
        event_base_loopbreak(attempt->base);
    }
}

static enum base_status request(struct attempt *attempt, struct h2_client *client,
                                const struct posix_options *options, struct base_str token,
                                struct base_str key)
{
    char bearer[BEARER_MAX];
    char hex[WIRE_DEVICE_HEX + 1];
    struct h2_header headers[3];
    int32_t stream = 0;
    int size = snprintf(bearer, sizeof(bearer), "Bearer %.*s", (int)token.size, token.data);
    if (size < 0 || (size_t)size >= sizeof(bearer)) {
        return BASE_ERR_TOO_LARGE;
    }
    headers[0] = (struct h2_header){BASE_STR("authorization"), {bearer, (size_t)size}};
    headers[1] = (struct h2_header){BASE_STR("walle-enroll-key"), key};
    wire_device_hex(options->config.device_id, hex);
    headers[2] = (struct h2_header){BASE_STR("walle-device"), {hex, WIRE_DEVICE_HEX}};
    struct h2_request out = {
        .method = BASE_STR("POST"),
        .path = BASE_STR("/v1/enroll"),
        .headers = headers,
        .header_count = options->config.device_id != 0 ? 3 : 2,
    };
    return h2_client_request(client, &out, attempt, &stream);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    event_base_loopbreak(((struct attempt *)arg)->base);
}

static enum base_status run(struct attempt *attempt)
{
    struct timeval wait = {.tv_sec = ANSWER_TIMEOUT_S};
    struct event *timer = evtimer_new(attempt->base, on_timeout, attempt);
    if (timer == NULL || evtimer_add(timer, &wait) != 0) {
        return BASE_ERR_NOMEM;
    }
    (void)event_base_dispatch(attempt->base);
    event_free(timer);
    return attempt->ended;
}

static enum base_status unanswered(const struct attempt *attempt,
                                   const struct posix_options *options, enum base_status status,
                                   struct base_error *error)
{
    const char *why = attempt->why != NULL ? attempt->why : base_status_text(status);
    int shown = options->host.size < HOST_SHOWN_MAX ? (int)options->host.size : HOST_SHOWN_MAX;
    if (attempt->unbelieved) {
        return base_error_set(error, status,
                              "enrolment: the certificate of %.*s:%u is not believed by %.40s: %s",
                              shown, options->host.data, options->port, options->ca_pem_path, why);
    }
    return base_error_set(error, status, "enrolment: no answer of %.*s:%u: %s", shown,
                          options->host.data, options->port, why);
}

// Asks; what came is in `attempt`.
static enum base_status ask(struct attempt *attempt, const struct posix_options *options,
                            struct base_str token, struct base_str key, struct base_error *error)
{
    struct h2_tls *tls = NULL;
    struct h2_client *client = NULL;
    struct h2_events events = {
        .head = on_head, .body = on_body, .end = on_end, .state = on_state, .ctx = attempt};
    BASE_TRY(posix_tls_new(options, &tls, error));
    struct h2_options to = {
        .host = options->host, .port = options->port, .tls = options->tls ? tls : NULL};
    enum base_status status = h2_client_new(attempt->base, &to, &events, &client);
    if (status == BASE_OK) {
        status = request(attempt, client, options, token, key);
    }
    if (status == BASE_OK) {
        status = run(attempt);
    }
    attempt->ended = BASE_OK; // what freeing the client tells is no news
    h2_client_free(client);
    h2_tls_free(tls);
    return status == BASE_OK ? BASE_OK : unanswered(attempt, options, status, error);
}

// The text of a problem (RFC 9457), as it stands in the JSON; empty when there is none.
static struct base_str detail_of(const struct attempt *attempt)
{
    static const char name[] = "\"detail\":\"";
    const char *begin = strstr(attempt->problem, name);
    if (begin == NULL) {
        return BASE_STR("");
    }
    begin += sizeof(name) - 1;
    size_t size = strcspn(begin, "\"\\");
    return (struct base_str){begin, size < DETAIL_MAX ? size : DETAIL_MAX};
}

static enum base_status refused(const struct attempt *attempt, struct base_error *error)
{
    bool later = attempt->status >= 500 || attempt->status == 429;
    struct base_str detail = detail_of(attempt);
    return base_error_set(error, later ? BASE_ERR_BUSY : BASE_ERR_DENIED,
                          "enrolment: the gateway answers %d%s%.*s", attempt->status,
                          detail.size > 0 ? ": " : "", (int)detail.size, detail.data);
}

enum base_status posix_enroll(struct event_base *base, const struct posix_options *options,
                              struct base_str token, struct posix_credential *out,
                              struct base_error *error)
{
    struct attempt attempt = {.base = base, .ended = BASE_ERR_TIMEOUT};
    char key[KEY_TEXT_BYTES + 1];
    BASE_TRY(key_take(options->dir, key, error));
    BASE_TRY(ask(&attempt, options, token, base_str_of(key), error));
    if (attempt.status != 201) {
        return refused(&attempt, error);
    }
    if (attempt.too_long || take(attempt.body, attempt.size, out) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "enrolment: the answer is malformed");
    }
    BASE_TRY(keep(options->dir, "credential", "credential.new",
                  (struct base_span){attempt.body, attempt.size}, error));
    key_drop(options->dir);
    return BASE_OK;
}

static enum base_status enrolled(struct event_base *base, const struct posix_options *options,
                                 struct base_str token, struct posix_credential *out,
                                 struct base_error *error)
{
    enum base_status status = posix_credential_load(options->dir, out, error);
    if (status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    if (token.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.100s: not enrolled yet, and there is no enrolment token",
                              options->dir);
    }
    return posix_enroll(base, options, token, out, error);
}

// That there was no credential yet is no error of the caller's.
enum base_status posix_enrolled(struct event_base *base, const struct posix_options *options,
                                struct base_str token, struct posix_credential *out,
                                struct base_error *error)
{
    struct base_error inner = {0};
    enum base_status status = enrolled(base, options, token, out, &inner);
    if (status != BASE_OK && error != NULL) {
        *error = inner;
    }
    return status;
}
