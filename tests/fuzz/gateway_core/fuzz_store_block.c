// Any bytes as the key and the value of a block of device records: nothing outside the value is
// read, and sound records put into a block of their own come back.
//
//   input := key (7 bytes), value
#include "fuzz_target.h"

#include "base/check.h"
#include "store/store_block.h"

#include <string.h>

#define KEY_BYTES 7u

static void keep(struct gw_block *block, const struct gw_block_view *view, uint32_t index)
{
    struct gw_block_room room;
    uint64_t place = 0;
    const struct gw_block_record record = gw_block_get(view, index, &room);
    if (!record.sound) {
        return;
    }
    base_check(record.is_there && record.bytes.size <= view->size);
    if (block->count == 0 || gw_block_has_room(block, record.bytes.size)) {
        base_check(gw_block_add(block, record.id, record.bytes, false, &place) == 0);
        base_check(gw_block_of(place) == 1 && gw_block_index(place) == block->count - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_view view;
    struct gw_block block = {.number = 0};
    if (size < KEY_BYTES) {
        return 0;
    }
    const MDB_val key = {KEY_BYTES, (void *)(uintptr_t)data};
    const MDB_val value = {size - KEY_BYTES, (void *)(uintptr_t)(data + KEY_BYTES)};
    if (!gw_block_open(key, value, &view)) {
        return 0;
    }
    base_check(view.count > 0 && view.count <= GW_BLOCK_RECORDS);
    gw_block_begin(&block, 1);
    const bool known = gw_block_owners(&view, owners);
    for (uint32_t i = 0; i < view.count; i++) {
        base_check(!known || owners[i].count == 1 || owners[i].count == 2);
        keep(&block, &view, i);
    }
    (void)gw_block_mend_key(&view);
    gw_block_done(&block);
    return 0;
}
