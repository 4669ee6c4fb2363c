// The ledger: which record is where, known from what was offered and what the sink was given, not
// from what device or gateway say of themselves. tunnel_law_device.c says what was offered,
// forgotten and branched off, tunnel_law_link.c what the sink took, tunnel_law_run.c has the epochs
// checked at the end. One thread, virtual time. A record is a token of (device, lineage, index), so
// a copy of a device's store has tokens of its own.
#include "tunnel/tunnel_law.h"

#include "base/check.h"
#include "tunnel/tunnel_zstd.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_MASK 0x00ffffffu

void law_problem(struct law_sim *sim, const struct law_phone *phone, const char *format, ...)
{
    va_list arguments;
    sim->counts.problems++;
    if (sim->counts.problems > LAW_PROBLEMS) {
        return;
    }
    (void)fprintf(stderr, "walle-fleet-sim: at %.3f s, device %u: ", (double)sim->now_us / 1e6,
                  phone != NULL ? (unsigned)phone->index : 0);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}

// token := u24 index, u8 lineage and slot, u32 phone + 1
uint64_t law_token(const struct law_phone *phone, uint8_t lineage, uint8_t slot, uint32_t index)
{
    return (uint64_t)(phone->index + 1) << 32 | (uint64_t)(lineage << 1 | slot) << 24 |
           (index & INDEX_MASK);
}

static void *grown(void *old, size_t count, size_t size)
{
    void *memory = realloc(old, count * size);
    base_check(memory != NULL);
    return memory;
}

uint64_t law_offer(struct law_sim *sim, struct law_phone *phone, uint8_t lineage, uint8_t slot,
                   bool poison)
{
    struct law_tokens *tokens = &phone->lineages[lineage].tokens[slot];
    if (tokens->count == tokens->capacity) {
        tokens->capacity = tokens->capacity == 0 ? 32 : tokens->capacity * 2;
        tokens->flags = grown(tokens->flags, tokens->capacity, sizeof(tokens->flags[0]));
        tokens->offered_ms =
            grown(tokens->offered_ms, tokens->capacity, sizeof(tokens->offered_ms[0]));
    }
    tokens->flags[tokens->count] = poison ? LAW_POISON : 0;
    tokens->offered_ms[tokens->count] = (uint32_t)(sim->now_us / 1000);
    sim->counts.offered++;
    return law_token(phone, lineage, slot, tokens->count++);
}

void law_forget(struct law_sim *sim, struct law_phone *phone, uint8_t lineage, uint8_t slot,
                uint64_t count)
{
    struct law_tokens *tokens = &phone->lineages[lineage].tokens[slot];
    sim->counts.forgotten += count;
    for (uint32_t i = tokens->count; i > 0 && count > 0; i--) {
        if ((tokens->flags[i - 1] & LAW_FORGOTTEN) == 0) {
            tokens->flags[i - 1] |= LAW_FORGOTTEN;
            count--;
            bool sent = (tokens->flags[i - 1] & LAW_DELIVERED) != 0;
            if (sent && !phone->unreliable) {
                law_problem(sim, phone, "a record is in the sink that its device never stored");
            }
        }
    }
    if (count > 0) {
        law_problem(sim, phone, "%llu records more were forgotten than offered",
                    (unsigned long long)count);
    }
}

static uint64_t count_tokens(const struct law_tokens *tokens, uint32_t limit, bool delivered,
                             bool forgotten)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < limit; i++) {
        bool fits = (!delivered || (tokens->flags[i] & LAW_DELIVERED) != 0) &&
                    (!forgotten || (tokens->flags[i] & LAW_FORGOTTEN) != 0);
        count += fits ? 1 : 0;
    }
    return count;
}

uint64_t law_tokens_of(const struct law_phone *phone, uint8_t lineage, uint8_t slot, bool delivered,
                       bool forgotten)
{
    uint32_t limit = phone->lineages[lineage].tokens[slot].count;
    uint64_t count = 0;
    while (lineage != LAW_NO_LINEAGE) {
        const struct law_lineage *at = &phone->lineages[lineage];
        count += count_tokens(&at->tokens[slot], limit, delivered, forgotten);
        limit = at->parent_count[slot];
        lineage = at->parent;
    }
    return count;
}

uint64_t law_remembered(const struct law_phone *phone, uint8_t lineage, uint8_t slot)
{
    const struct law_tokens *tokens = &phone->lineages[lineage].tokens[slot];
    return tokens->count - count_tokens(tokens, tokens->count, false, true);
}

uint8_t law_branch(struct law_sim *sim, struct law_phone *phone, uint8_t parent,
                   const uint32_t counts[LAW_CLASSES])
{
    (void)sim;
    base_check(phone->lineage_count < LAW_LINEAGES);
    struct law_lineage *lineage = &phone->lineages[phone->lineage_count];
    *lineage = (struct law_lineage){.parent = parent};
    if (counts != NULL) {
        memcpy(lineage->parent_count, counts, sizeof(lineage->parent_count));
    }
    return phone->lineage_count++;
}

// ---- What the sink is given

static struct law_epoch *epoch_of(struct law_phone *phone, uint8_t slot, uint32_t epoch)
{
    for (uint32_t i = phone->epoch_count; i > 0; i--) {
        if (phone->epochs[i - 1].slot == slot && phone->epochs[i - 1].epoch == epoch) {
            return &phone->epochs[i - 1];
        }
    }
    phone->epochs = grown(phone->epochs, phone->epoch_count + 1, sizeof(phone->epochs[0]));
    phone->epochs[phone->epoch_count] = (struct law_epoch){.slot = slot, .epoch = epoch};
    return &phone->epochs[phone->epoch_count++];
}

static void take_record(struct law_sim *sim, struct law_phone *phone, struct law_epoch *epoch,
                        const struct wire_record *record)
{
    uint64_t token = 0;
    if (record->size < LAW_TOKEN) {
        law_problem(sim, phone, "a row without a token");
        return;
    }
    memcpy(&token, record->bytes, LAW_TOKEN);
    uint8_t lineage = (uint8_t)(token >> 25 & 0x7f);
    uint8_t slot = (uint8_t)(token >> 24 & 1);
    uint32_t index = (uint32_t)token & INDEX_MASK;
    if (token >> 32 != phone->index + 1 || slot != epoch->slot || lineage >= phone->lineage_count ||
        index >= phone->lineages[lineage].tokens[slot].count) {
        law_problem(sim, phone, "row %llx belongs to somebody else", (unsigned long long)token);
        return;
    }
    struct law_tokens *tokens = &phone->lineages[lineage].tokens[slot];
    uint8_t *flags = &tokens->flags[index];
    if ((*flags & LAW_FORGOTTEN) != 0 && !phone->unreliable) {
        law_problem(sim, phone, "a record arrived that its device never stored");
    }
    if ((*flags & LAW_POISON) != 0) {
        law_problem(sim, phone, "a refused record is in the sink");
    }
    if ((*flags & LAW_DELIVERED) != 0) {
        sim->counts.duplicates++;
        if (!phone->copied) {
            law_problem(sim, phone, "record %llx is in the sink twice", (unsigned long long)token);
        }
    }
    if ((*flags & LAW_DELIVERED) != LAW_DELIVERED) {
        (*flags)++;
    }
    epoch->most[lineage] = epoch->most[lineage] > index + 1 ? epoch->most[lineage] : index + 1;
    epoch->rows++;
    sim->counts.rows++;
}

static struct law_phone *phone_of(struct law_sim *sim, uint64_t device)
{
    return device >= 1 && device <= sim->options.devices ? &sim->phones[device - 1] : NULL;
}

static uint8_t slot_of(const struct law_phone *phone, uint8_t class_id)
{
    return phone->classes[1] == class_id ? 1 : 0;
}

// What a row holds.
struct law_span {
    uint64_t number;
    uint64_t numbers;
    uint64_t first_seq;
    uint64_t count;
};

// Rows follow each other without gaps, so every id occurs once.
static bool in_order(struct law_sim *sim, const struct law_phone *phone, struct law_epoch *epoch,
                     const struct law_span *span)
{
    if (span->number != epoch->next || span->first_seq != epoch->next_seq) {
        law_problem(sim, phone, "the sink got batch %llu, record %llu, after %llu and %llu",
                    (unsigned long long)span->number, (unsigned long long)span->first_seq,
                    (unsigned long long)epoch->next, (unsigned long long)epoch->next_seq);
        return false;
    }
    epoch->next += span->numbers;
    epoch->next_seq += span->count;
    return true;
}

static void take_loss(struct law_sim *sim, struct law_phone *phone,
                      const struct wire_tunnel_loss_frame *loss)
{
    struct law_epoch *epoch = epoch_of(phone, slot_of(phone, loss->class_id), loss->epoch);
    if (!in_order(sim, phone, epoch,
                  &(struct law_span){loss->number, loss->numbers, loss->first_seq, loss->count})) {
        return;
    }
    sim->counts.losses++;
    if (loss->reason != WIRE_TUNNEL_LOSS_SPLIT) {
        epoch->lost += loss->count;
        sim->counts.lost_records += loss->count;
    }
}

void law_take_batch(struct law_sim *sim, const struct gw_sink_batch *batch)
{
    struct law_phone *phone = phone_of(sim, batch->device);
    if (phone == NULL) {
        law_problem(sim, NULL, "the sink got a batch of an unknown device");
        return;
    }
    if (batch->is_loss) {
        take_loss(sim, phone, &batch->loss);
        return;
    }
    const struct wire_tunnel_batch *frame = &batch->batch;
    struct law_epoch *epoch = epoch_of(phone, slot_of(phone, frame->class_id), frame->epoch);
    const uint8_t *raw = frame->bytes;
    struct wire_batch records;
    uint32_t bad = 0;
    bool ok = in_order(sim, phone, epoch,
                       &(struct law_span){frame->number, 1, frame->first_seq, frame->count});
    if (ok && frame->codec != WIRE_TUNNEL_PLAIN) {
        ok = gw_tunnel_zstd_open(sim->zstd, NULL,
                                 (struct base_span){frame->bytes, frame->sent_bytes},
                                 frame->raw_bytes, &raw) == BASE_OK;
    }
    if (!ok || wire_batch_parse(raw, frame->raw_bytes, &records, &bad) != BASE_OK ||
        records.record_count != frame->count) {
        law_problem(sim, phone, "the sink got a batch that cannot be read");
        return;
    }
    sim->counts.batches++;
    struct wire_record record;
    while (wire_batch_next(&records, &record)) {
        take_record(sim, phone, epoch, &record);
    }
}

// ---- Nothing merged wrongly

static bool is_ancestor(const struct law_phone *phone, uint8_t old, uint8_t young)
{
    while (young != LAW_NO_LINEAGE && young != old) {
        young = phone->lineages[young].parent;
    }
    return young == old;
}

// How many of `old`'s tokens a copy on the way to `young` has.
static uint32_t inherited(const struct law_phone *phone, uint8_t old, uint8_t young, uint8_t slot)
{
    while (phone->lineages[young].parent != old) {
        young = phone->lineages[young].parent;
    }
    return phone->lineages[young].parent_count[slot];
}

// Two lineages in one epoch: one comes from the other, which put nothing there that the copy does
// not have too.
static bool fit_together(const struct law_phone *phone, const struct law_epoch *epoch, uint8_t a,
                         uint8_t b)
{
    uint8_t old = is_ancestor(phone, a, b) ? a : b;
    uint8_t young = old == a ? b : a;
    return is_ancestor(phone, old, young) &&
           epoch->most[old] <= inherited(phone, old, young, epoch->slot);
}

void law_check_epochs(struct law_sim *sim, struct law_phone *phone)
{
    bool diverged = false;
    for (uint32_t e = 0; e < phone->epoch_count; e++) {
        const struct law_epoch *epoch = &phone->epochs[e];
        uint64_t high_water = 0;
        uint64_t hash = 0;
        sim->counts.epochs++;
        for (uint8_t a = 0; a < phone->lineage_count; a++) {
            for (uint8_t b = 0; b < a; b++) {
                if (epoch->most[a] > 0 && epoch->most[b] > 0 && !fit_together(phone, epoch, a, b)) {
                    law_problem(sim, phone, "epoch %08x holds records of two copies",
                                (unsigned)epoch->epoch);
                }
            }
        }
        bool known = gw_tunnel_high_water(
            sim->tunnel,
            &(struct gw_mark_key){phone->index + 1, phone->classes[epoch->slot], epoch->epoch},
            &high_water, &hash);
        if (!known || high_water != epoch->next) {
            law_problem(sim, phone, "the gateway's mark of epoch %08x says %llu, the sink %llu",
                        (unsigned)epoch->epoch, (unsigned long long)high_water,
                        (unsigned long long)epoch->next);
        }
        for (uint32_t f = 0; f < e; f++) {
            diverged = diverged || phone->epochs[f].slot == epoch->slot;
        }
    }
    sim->counts.copies_that_diverged += phone->copied && diverged ? 1 : 0;
}
