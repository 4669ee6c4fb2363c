// How much has left today: a count for each upload and model whose "leaves" has "per_day". A plain
// structure of whoever lets something leave (the pipeline for uploads, the calls for models), which
// stores it with what it lets go. A day is one of UTC by the wall clock; a clock that was set back
// goes on counting the later day, so that it gives nobody more.
#ifndef WIRE_LEAVES_LEDGER_H
#define WIRE_LEAVES_LEDGER_H

#include "base/cursor.h"
#include "base/str.h"

#define WIRE_LEAVES_LEDGER_MAX   64 // names counted at once
#define WIRE_LEAVES_LEDGER_BYTES (1 + 4 + 2 + WIRE_LEAVES_LEDGER_MAX * 12)
#define WIRE_LEAVES_DAY_MS       UINT64_C(86400000)

// Zero-initialised: nothing has left.
struct wire_leaves_ledger {
    uint32_t day; // since 1970
    uint32_t count;
    struct {
        uint64_t key;
        uint32_t left; // records or calls
    } entries[WIRE_LEAVES_LEDGER_MAX];
};

// Whose count: `what` is "upload" or "model".
uint64_t wire_leaves_ledger_key(struct base_str task, struct base_str what, struct base_str name);
// Counts one more. False: `per_day` have left today, or there is no place to count one more name;
// nothing is counted then. per_day 0: always true, and not counted.
bool wire_leaves_ledger_take(struct wire_leaves_ledger *ledger, uint64_t key, uint64_t wall_ms,
                             uint32_t per_day);
// The stored form. What is damaged reads as nothing: the reader fails with INVALID.
void wire_leaves_ledger_write(struct base_writer *writer, const struct wire_leaves_ledger *ledger);
void wire_leaves_ledger_read(struct base_reader *reader, struct wire_leaves_ledger *out);

#endif
