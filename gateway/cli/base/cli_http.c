// libcurl behind one call, and the only file beside cli_token.c that knows it. Used by cli_json.c
// for the operator API, and by push_blobs.c, cli_task.c, cli_root.c and served_root.c for bytes;
// one thread, one easy handle that is kept for its connection until cli_main.c ends it. A token is
// added only when the connection is there and cli_token.c still holds it for good.
#include "cli/base/cli_http.h"

#include "base/os/regular_file.h"
#include "cli/base/cli_token.h"

#include <curl/curl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GATEWAY "https://127.0.0.1:8443"
#define BODY_FIRST      4096

// The process has one connection to one gateway; it lives here between calls.
static CURL *kept;

struct sink {
    char *data;
    size_t size;
    size_t capacity;
    bool too_large;
};

static size_t take_bytes(char *bytes, size_t unit, size_t count, void *ctx)
{
    struct sink *sink = ctx;
    size_t size = unit * count;

    if (size > CLI_HTTP_BODY_MAX - sink->size) {
        sink->too_large = true;
        return 0;
    }
    if (sink->size + size + 1 > sink->capacity) {
        size_t capacity = sink->capacity == 0 ? BODY_FIRST : sink->capacity;
        while (capacity < sink->size + size + 1) {
            capacity *= 2;
        }
        char *data = realloc(sink->data, capacity);
        if (data == NULL) {
            return 0;
        }
        sink->data = data;
        sink->capacity = capacity;
    }
    memcpy(sink->data + sink->size, bytes, size);
    sink->size += size;
    sink->data[sink->size] = '\0';
    return size;
}

static const char *option_or_env(const struct cli *cli, enum cli_option option, const char *name)
{
    return cli_given(cli, option) ? cli->values[option] : getenv(name);
}

const char *cli_http_gateway(const struct cli *cli)
{
    const char *url = option_or_env(cli, CLI_OPTION_GATEWAY, "WALLE_GATEWAY");

    return url != NULL && url[0] != '\0' ? url : DEFAULT_GATEWAY;
}

enum cli_exit cli_http_gateway_check(const struct cli *cli)
{
    const char *gateway = cli_http_gateway(cli);

    if (strncmp(gateway, "https://", 8) != 0 && strncmp(gateway, "http://", 7) != 0) {
        return cli_fail(CLI_EXIT_USAGE, "--gateway takes a URL like https://HOST:PORT, not '%s'",
                        gateway);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit make_url(const struct cli *cli, const char *path, char out[CLI_HTTP_URL_MAX])
{
    const char *gateway = cli_http_gateway(cli);
    size_t size = strlen(gateway);
    enum cli_exit code = cli_http_gateway_check(cli);

    if (code != CLI_EXIT_OK) {
        return code;
    }
    while (size > 0 && gateway[size - 1] == '/') {
        size--;
    }
    int written = snprintf(out, CLI_HTTP_URL_MAX, "%.*s%s", (int)size, gateway, path);
    if (written < 0 || written >= CLI_HTTP_URL_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "--gateway: URL longer than %d bytes", CLI_HTTP_URL_MAX);
    }
    return CLI_EXIT_OK;
}

static struct curl_slist *make_headers(const struct cli *cli, const struct cli_call *call,
                                       const char *token)
{
    char line[CLI_HTTP_HEADER_MAX];
    struct curl_slist *list = curl_slist_append(NULL, "Accept: application/json");

    if (call->content_type != NULL) {
        snprintf(line, sizeof(line), "Content-Type: %s", call->content_type);
        list = curl_slist_append(list, line);
    }
    if (call->device != NULL) {
        snprintf(line, sizeof(line), "walle-device: %s", call->device);
        list = curl_slist_append(list, line);
    }
    if (token != NULL) {
        snprintf(line, sizeof(line), "Authorization: Bearer %s", token);
        list = curl_slist_append(list, line);
    }
    const char *tenant = option_or_env(cli, CLI_OPTION_TENANT, "WALLE_TENANT");
    if (tenant != NULL && tenant[0] != '\0') {
        snprintf(line, sizeof(line), "Walle-Tenant: %s", tenant);
        list = curl_slist_append(list, line);
    }
    return curl_slist_append(list, "Expect:");
}

// The file of certificates that libcurl is to open; NULL: the system's.
static const char *ca_of(const struct cli *cli)
{
    const char *ca = option_or_env(cli, CLI_OPTION_CA, "WALLE_CA");
    return ca != NULL && ca[0] != '\0' ? ca : NULL;
}

// It would wait for a pipe, and read a device for ever.
static enum cli_exit check_ca(const struct cli *cli)
{
    struct base_error error = {0};
    const char *ca = ca_of(cli);
    bool good = ca == NULL || base_regular_holds(ca, BASE_PEM_BYTES_MAX, &error) == BASE_OK;
    return good ? CLI_EXIT_OK : cli_fail(CLI_EXIT_USAGE, "--ca: %s", error.text);
}

static void set_options(const struct cli *cli, const struct cli_call *call, const char *url,
                        struct sink *sink, char *error)
{
    const char *ca = ca_of(cli);
    bool clear = strncmp(url, "http://", 7) == 0;

    curl_easy_reset(kept);
    curl_easy_setopt(kept, CURLOPT_URL, url);
    curl_easy_setopt(kept, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(kept, CURLOPT_HTTP_VERSION,
                     (long)(clear ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE : CURL_HTTP_VERSION_2TLS));
    // libcurl 7.88 cannot reuse a clear-text HTTP/2 connection made with prior knowledge (curl
    // issue 10634): such a call has a connection of its own.
    curl_easy_setopt(kept, CURLOPT_FORBID_REUSE, clear ? 1L : 0L);
    curl_easy_setopt(kept, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(kept, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(kept, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(kept, CURLOPT_TIMEOUT_MS,
                     call->timeout_ms > 0 ? (long)call->timeout_ms : CLI_HTTP_TIMEOUT_S * 1000L);
    curl_easy_setopt(kept, CURLOPT_CONNECTTIMEOUT, (long)CLI_HTTP_CONNECT_S);
    curl_easy_setopt(kept, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(kept, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(kept, CURLOPT_WRITEDATA, sink);
    if (strcmp(call->method, "HEAD") == 0) {
        curl_easy_setopt(kept, CURLOPT_NOBODY, 1L);
    }
    if (call->content_type != NULL) {
        curl_easy_setopt(kept, CURLOPT_POSTFIELDS, call->body_bytes > 0 ? call->body : "");
        curl_easy_setopt(kept, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_bytes);
    }
    if (ca != NULL) {
        curl_easy_setopt(kept, CURLOPT_CAINFO, ca);
        curl_easy_setopt(kept, CURLOPT_CAPATH, NULL);
    }
    if (cli_given(cli, CLI_OPTION_INSECURE)) {
        curl_easy_setopt(kept, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(kept, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

// What a call that is under way is about, for libcurl's callback.
struct under_way {
    const struct cli *cli;
    const char *url;
    struct cli_token token;
};

// The connection is there, nothing is sent yet: is who listens still the gateway that left word?
static int before_request(void *ctx, char *to, char *from, int to_port, int from_port)
{
    const struct under_way *call = ctx;
    (void)to;
    (void)from;
    (void)to_port;
    (void)from_port;
    return cli_token_holds(call->cli, call->url, &call->token) ? CURL_PREREQFUNC_OK
                                                               : CURL_PREREQFUNC_ABORT;
}

// A token that was found goes where the gateway is, whatever the host's name leads to.
static struct curl_slist *bind_to_gateway(const struct under_way *call)
{
    char line[BASE_GATEWAY_ADDRESS_MAX + 4];
    if (!call->token.found) {
        return NULL;
    }
    snprintf(line, sizeof(line), "::%s", call->token.note.address);
    struct curl_slist *list = curl_slist_append(NULL, line);
    curl_easy_setopt(kept, CURLOPT_CONNECT_TO, list);
    return list;
}

static enum cli_exit explain(const struct cli *cli, CURLcode code, const struct sink *sink,
                             const char *error)
{
    if (sink->too_large) {
        return cli_fail(CLI_EXIT_UNREACHABLE, "%s: answer larger than %u bytes",
                        cli_http_gateway(cli), CLI_HTTP_BODY_MAX);
    }
    const char *hint = "";
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        hint = "  --ca FILE names the certificate to trust (a gateway started for development "
               "keeps its own\n  in its data folder, cert.pem); --insecure skips the check";
    } else if (code == CURLE_SSL_CONNECT_ERROR) {
        hint = "  is that port TLS? the gateway's clear one takes http://";
    } else if (code == CURLE_HTTP2_STREAM || code == CURLE_HTTP2 || code == CURLE_GOT_NOTHING ||
               code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE) {
        hint = "  is that port clear HTTP/2? the gateway's TLS one takes https://";
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
        hint = "  the gateway of this user that listened there is gone: its token was not sent";
    } else if (code == CURLE_COULDNT_CONNECT) {
        hint = "  is walle-gateway running there? --gateway or WALLE_GATEWAY names another";
    }
    (void)cli_fail(CLI_EXIT_UNREACHABLE, "cannot reach %s: %s", cli_http_gateway(cli),
                   error[0] != '\0' ? error : curl_easy_strerror(code));
    if (hint[0] != '\0') { // lines of our own, which a message has not
        fprintf(stderr, "%s\n", hint);
    }
    return CLI_EXIT_UNREACHABLE;
}

enum cli_exit cli_http_call(const struct cli *cli, const struct cli_call *call,
                            struct cli_answer *out_answer)
{
    char url[CLI_HTTP_URL_MAX];
    char error[CURL_ERROR_SIZE] = "";
    struct sink sink = {0};
    curl_off_t length = -1;
    struct curl_header *reason = NULL;
    enum cli_exit exit_code = make_url(cli, call->path, url);

    exit_code = exit_code == CLI_EXIT_OK ? check_ca(cli) : exit_code;
    if (exit_code != CLI_EXIT_OK) {
        return exit_code;
    }
    if (kept == NULL) {
        kept = curl_easy_init();
    }
    struct under_way way = {.cli = cli, .url = url};
    cli_token_choose(cli, url, &way.token);
    struct curl_slist *headers = make_headers(cli, call, way.token.text);
    if (kept == NULL || headers == NULL) {
        curl_slist_free_all(headers);
        return cli_fail(CLI_EXIT_LOCAL, "out of memory");
    }
    set_options(cli, call, url, &sink, error);
    struct curl_slist *bound = bind_to_gateway(&way);
    curl_easy_setopt(kept, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(kept, CURLOPT_PREREQFUNCTION, before_request);
    curl_easy_setopt(kept, CURLOPT_PREREQDATA, &way);
    CURLcode code = curl_easy_perform(kept);
    curl_slist_free_all(headers);
    curl_slist_free_all(bound);
    memset(out_answer, 0, sizeof(*out_answer));
    if (code != CURLE_OK) {
        free(sink.data);
        out_answer->timed_out = code == CURLE_OPERATION_TIMEDOUT;
        return explain(cli, code, &sink, error);
    }
    curl_easy_getinfo(kept, CURLINFO_RESPONSE_CODE, &out_answer->status);
    curl_easy_getinfo(kept, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (curl_easy_header(kept, "walle-reason", 0, CURLH_HEADER, -1, &reason) == CURLHE_OK) {
        snprintf(out_answer->reason, sizeof(out_answer->reason), "%s", reason->value);
    }
    out_answer->content_bytes = length < 0 ? UINT64_MAX : (uint64_t)length;
    out_answer->body = sink.data;
    out_answer->body_bytes = sink.size;
    return CLI_EXIT_OK;
}

void cli_answer_done(struct cli_answer *answer)
{
    free(answer->body);
    answer->body = NULL;
    answer->body_bytes = 0;
}

void cli_http_done(void)
{
    if (kept != NULL) {
        curl_easy_cleanup(kept);
        kept = NULL;
    }
}
