// Requests of every kind against a real core with a task, a rollout and blobs: each is answered
// exactly once, with a status that fits, and the process stays whole.
//
// Input: u8 which, then
//   0 check-in: profile bytes, encoded here   1 check-in: the header's text as it is
//   2 report body   3 blob: Range, If-None-Match, If-Range, Accept-Encoding, one a line   4 any
//   path   5 any path behind /v1/exclusive/, of a device that shows its credential
#include "fuzz_target.h"

#include "core_rig.h"
#include "svc/access/operators.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rig rig;
static char blob_path[128];

static void stop(void)
{
    rig_done(&rig);
}

#define DEVICE     0xbbu
#define CREDENTIAL "wdt_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA"

static void enrol(void)
{
    struct gw_credential credential = {.state = GW_CREDENTIAL_TOKEN};
    if (!gw_secret_hash(BASE_STR(CREDENTIAL), GW_SECRET_DEVICE, &credential.hash) ||
        !gw_credentials_set(rig.core->credentials, DEVICE, &credential)) {
        abort();
    }
}

static void start(void)
{
    static const struct rig_stage gray = {"gray", POL_STAGE_GRAY, 5000, "os", "ios", 1, 0, 0};
    struct wire_sha256 v1;
    struct wire_sha256 v2;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char hex[WIRE_SHA256_HEX + 1];
    rig_init(&rig);
    rig_start(&rig);
    rig_baseline(&rig, "t", 1, NULL, NULL, &v1);
    rig_version(&rig, "t", "2.0.0", &v2);
    if (rig_rollout(&rig, 2, "t", &v2, NULL, NULL, &gray, 1, &view, &error) != BASE_OK) {
        abort();
    }
    rig_command(&rig, 2, POL_COMMAND_START, NULL);
    wire_sha256_hex(&v1, hex);
    memcpy(blob_path, "/v1/blob/", 9);
    memcpy(blob_path + 9, hex, sizeof(hex));
    enrol();
    (void)atexit(stop);
}

// The next line of the input.
static struct base_str line(const uint8_t **at, const uint8_t *end)
{
    struct base_str out = {(const char *)*at, 0};
    while (*at < end && **at != '\n') {
        (*at)++;
        out.size++;
    }
    *at += *at < end;
    return out;
}

static void ask(struct rig_exchange *exchange)
{
    rig_run(&rig, exchange);
    int status = exchange->exchange.reply.status;
    if (status < 200 || status > 599 || exchange->exchange.reply.header_count > 12) {
        abort();
    }
    rig_exchange_done(exchange);
}

static void ask_checkin(const uint8_t *data, size_t size, bool encode)
{
    struct rig_exchange exchange;
    char *text = malloc(BASE_B64_ENCODED(size) + 1);
    if (text == NULL) {
        return;
    }
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/checkin");
    exchange.exchange.request.device = BASE_STR("00000000000000aa");
    exchange.exchange.request.profile =
        encode ? (struct base_str){text, base_b64_encode(data, size, text)}
               : (struct base_str){(const char *)data, size};
    ask(&exchange);
    free(text);
}

static void ask_blob(const uint8_t *data, size_t size)
{
    struct rig_exchange exchange;
    const uint8_t *end = data + size;
    rig_exchange_init(&exchange, GW_METHOD_GET, blob_path);
    exchange.exchange.request.range = line(&data, end);
    exchange.exchange.request.if_none_match = line(&data, end);
    exchange.exchange.request.if_range = line(&data, end);
    exchange.exchange.request.accept_encoding = line(&data, end);
    ask(&exchange);
}

static void ask_exclusive(const uint8_t *data, size_t size)
{
    static const char prefix[] = "/v1/exclusive/";
    struct rig_exchange exchange;
    char path[512];
    size_t used = sizeof(prefix) - 1;
    size = size < sizeof(path) - used ? size : sizeof(path) - used;
    memcpy(path, prefix, used);
    memcpy(path + used, data, size);
    rig_exchange_init(&exchange, GW_METHOD_GET, "");
    exchange.exchange.request.path = (struct base_str){path, used + size};
    exchange.exchange.request.device = BASE_STR("00000000000000bb");
    exchange.exchange.request.credential = BASE_STR(CREDENTIAL);
    rig_run(&rig, &exchange);
    int status = exchange.exchange.reply.status;
    if (status != 400 && status != 404) { // there is no tree
        abort();
    }
    rig_exchange_done(&exchange);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rig_exchange exchange;
    if (rig.core == NULL) {
        start();
    }
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 6) {
    case 0:
    case 1:
        ask_checkin(data + 1, size - 1, data[0] % 6 == 0);
        break;
    case 2:
        rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/report");
        exchange.exchange.request.body = data + 1;
        exchange.exchange.request.body_bytes = size - 1;
        ask(&exchange);
        break;
    case 3:
        ask_blob(data + 1, size - 1);
        break;
    case 5:
        ask_exclusive(data + 1, size - 1);
        break;
    default:
        rig_exchange_init(&exchange, GW_METHOD_GET, "");
        exchange.exchange.request.path = (struct base_str){(const char *)data + 1, size - 1};
        ask(&exchange);
        break;
    }
    return 0;
}
