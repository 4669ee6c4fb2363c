// Counts of what has left today. Called by the pipeline for records and by the device's calls for
// calls of models, on the device's loop; pure. When there is no place to count another name it may
// not leave: a bound that cannot be kept is not given up.
#include "wire/leaves/leaves_ledger.h"

#include "base/check.h"
#include "base/hash.h"

#define LEDGER_VERSION 1

uint64_t wire_leaves_ledger_key(struct base_str task, struct base_str what, struct base_str name)
{
    uint64_t key = base_hash64(task.data, task.size);
    key = base_hash64_seed(what.data, what.size, key);
    return base_hash64_seed(name.data, name.size, key);
}

static void day_begin(struct wire_leaves_ledger *ledger, uint64_t wall_ms)
{
    uint64_t today = wall_ms / WIRE_LEAVES_DAY_MS;
    if (today > ledger->day) {
        ledger->day = today < UINT32_MAX ? (uint32_t)today : UINT32_MAX;
        ledger->count = 0;
    }
}

bool wire_leaves_ledger_take(struct wire_leaves_ledger *ledger, uint64_t key, uint64_t wall_ms,
                             uint32_t per_day)
{
    if (per_day == 0) {
        return true;
    }
    day_begin(ledger, wall_ms);
    base_assert(ledger->count <= WIRE_LEAVES_LEDGER_MAX);
    for (uint32_t i = 0; i < ledger->count; i++) {
        if (ledger->entries[i].key == key) {
            bool free = ledger->entries[i].left < per_day;
            ledger->entries[i].left += free ? 1 : 0;
            return free;
        }
    }
    if (ledger->count == WIRE_LEAVES_LEDGER_MAX) {
        return false;
    }
    ledger->entries[ledger->count].key = key;
    ledger->entries[ledger->count++].left = 1;
    return true;
}

void wire_leaves_ledger_write(struct base_writer *writer, const struct wire_leaves_ledger *ledger)
{
    base_assert(ledger->count <= WIRE_LEAVES_LEDGER_MAX);
    base_writer_u8(writer, LEDGER_VERSION);
    base_writer_u32(writer, ledger->day);
    base_writer_u16(writer, (uint16_t)ledger->count);
    for (uint32_t i = 0; i < ledger->count; i++) {
        base_writer_u64(writer, ledger->entries[i].key);
        base_writer_u32(writer, ledger->entries[i].left);
    }
}

void wire_leaves_ledger_read(struct base_reader *reader, struct wire_leaves_ledger *out)
{
    uint8_t version = base_reader_u8(reader);
    out->day = base_reader_u32(reader);
    uint32_t count = base_reader_u16(reader);
    if (version != LEDGER_VERSION || count > WIRE_LEAVES_LEDGER_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    out->count = reader->status == BASE_OK ? count : 0;
    for (uint32_t i = 0; i < out->count; i++) {
        out->entries[i].key = base_reader_u64(reader);
        out->entries[i].left = base_reader_u32(reader);
    }
    if (reader->status != BASE_OK) {
        *out = (struct wire_leaves_ledger){.day = 0};
    }
}
