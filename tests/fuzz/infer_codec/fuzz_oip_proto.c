// Any bytes as a ModelInferRequest and as one of the small requests: what is taken holds to the
// limits, all of its elements can be read, and it can be written as a result.
#include "fuzz_target.h"
#include "oip_check.h"

#include "infer/codec/oip_proto.h"

// Of a call without its elements, and what they are aligned by.
#define CALL_BYTES                                                                                 \
    (GW_INFER_TENSORS_MAX * (sizeof(struct gw_infer_tensor) + sizeof(struct gw_infer_wish) + 16))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_arena arena;
    struct gw_infer_call call = {0};
    struct gw_oip_query query;
    struct base_str frame;
    struct base_error error = {0};
    char *exact = oip_exact(data, size);
    struct base_str message = {exact, size};
    base_arena_init(&arena, base_alloc_heap(), 0, OIP_ARENA_BYTES);
    enum base_status status = gw_oip_proto_read(&arena, message, &call, &error);
    struct gw_infer_call early = {.priority = GW_INFER_PRIORITY_USUAL};
    base_check(gw_oip_proto_raw_bytes(message) <= size);
    size_t room = gw_oip_proto_typed_room(message);
    base_check(room <= 8 * size);
    base_check(status != BASE_OK || arena.used_bytes <= CALL_BYTES + 4 * size + room);
    enum base_status seen = gw_oip_proto_early(message, &early); // nothing more is said of it
    base_check(seen != BASE_OK || (early.priority < GW_INFER_PRIORITIES &&
                                   early.timeout_us <= GW_INFER_TIMEOUT_US_MAX));
    if (status == BASE_OK) {
        base_check(seen == BASE_OK || seen == BASE_ERR_TRUNCATED);
        struct gw_infer_result result = {call.model, call.version, call.id, call.inputs,
                                         call.input_count};
        oip_check_call(&call);
        call.wish_count = 0;
        status = gw_oip_proto_write(&arena, &call, &result, &frame);
        base_check(status == BASE_OK || status == BASE_ERR_NOMEM);
    } else {
        base_check(error.text[0] != '\0');
    }
    status = gw_oip_proto_query(message, &query, &error);
    base_check(status != BASE_OK || query.first.size <= GW_INFER_NAME_BYTES_MAX);
    base_arena_done(&arena);
    free(exact);
    return 0;
}
