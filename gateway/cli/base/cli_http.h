// The command's HTTP client: libcurl over HTTP/2, TLS or clear text with prior knowledge.
//
// A TLS connection is kept for the life of the process and reused by every call. Answers are
// bounded.
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli/base/cli.h"

#include <stddef.h>

#define CLI_HTTP_BODY_MAX   (32u * 1024 * 1024)
#define CLI_HTTP_TIMEOUT_S  120
#define CLI_HTTP_CONNECT_S  10
#define CLI_HTTP_URL_MAX    2048
#define CLI_HTTP_HEADER_MAX 512

struct cli_call {
    const char *method;
    const char *path;         // "/api/v1/..."
    const char *content_type; // NULL: no body
    const void *body;
    size_t body_bytes;
    const char *device;  // header walle-device; NULL: none
    uint32_t timeout_ms; // 0: CLI_HTTP_TIMEOUT_S
};

struct cli_answer {
    long status;
    char *body; // NUL behind it; free with cli_answer_done
    size_t body_bytes;
    char reason[24];        // header walle-reason of the answer, cut; empty: none
    uint64_t content_bytes; // content-length of the answer, UINT64_MAX: not said
    bool timed_out;         // there is none: it did not come in time
};

// OK, USAGE (bad --gateway), UNREACHABLE (said on standard error). Any HTTP status is an answer.
// Without one *out_answer is zeroed but for `timed_out`.
enum cli_exit cli_http_call(const struct cli *cli, const struct cli_call *call,
                            struct cli_answer *out_answer);
void cli_answer_done(struct cli_answer *answer); // accepts a zeroed answer
// Closes the kept connection.
void cli_http_done(void);
// The gateway's URL as this command sees it.
const char *cli_http_gateway(const struct cli *cli);
// Before what would ask it only later: CLI_EXIT_USAGE and why where it is no URL.
enum cli_exit cli_http_gateway_check(const struct cli *cli);

#endif
