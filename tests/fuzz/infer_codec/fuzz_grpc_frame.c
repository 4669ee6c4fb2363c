// Any bytes as what gRPC puts around a message: the body of a unary call, a time, a content type,
// and a text for grpc-message, which comes out as printable ASCII that says the same bytes.
#include "fuzz_target.h"
#include "oip_check.h"

#include "infer/codec/grpc_frame.h"
#include "infer/codec/oip_proto.h"
#include "infer/codec/pb_out.h"

#include <string.h>

static void check_escape(struct base_arena *arena, struct base_str text)
{
    struct base_str escaped = gw_grpc_escape(arena, text);
    size_t at = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned value = (unsigned char)escaped.data[at];
        base_check(at < escaped.size && value >= 0x20 && value <= 0x7e);
        if (value == '%') {
            char hex[3] = {escaped.data[at + 1], escaped.data[at + 2], '\0'};
            value = (unsigned)strtoul(hex, NULL, 16);
            at += 2;
        }
        base_check(value == (unsigned char)text.data[i]);
        at++;
    }
    base_check(at == escaped.size);
}

static void check_refusal(struct base_arena *arena, struct base_str id, const char *text)
{
    struct base_str frame;
    struct base_str message;
    struct base_error error = {0};
    base_check(gw_oip_proto_write_refusal(arena, id, text, &frame) == BASE_OK);
    base_check(gw_grpc_message(frame, &message, &error) == BASE_OK);
    base_check(message.size >= strlen(text) + id.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_arena arena;
    struct base_error error = {0};
    struct base_str message = {0};
    uint64_t us = 0;
    char *exact = oip_exact(data, size);
    struct base_str text = {exact, size};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    enum base_status status = gw_grpc_message(text, &message, &error);
    if (status == BASE_OK) {
        base_check(message.size == size - GW_PB_FRAME_BYTES);
        base_check(message.data == exact + GW_PB_FRAME_BYTES);
        base_check(exact[0] == 0);
    } else {
        base_check(error.text[0] != '\0' && error.status == status);
    }
    status = gw_grpc_timeout(text, &us);
    base_check(status != BASE_OK || size <= GW_GRPC_TIMEOUT_DIGITS_MAX + 1);
    (void)gw_grpc_is(text);
    check_escape(&arena, text);
    struct base_str id = gw_oip_proto_id(message);
    base_check(id.size <= GW_INFER_ID_BYTES_MAX);
    char *words = base_arena_text(&arena, exact, size);
    base_check(words != NULL);
    check_refusal(&arena, id, words);
    base_arena_done(&arena);
    free(exact);
    return 0;
}
