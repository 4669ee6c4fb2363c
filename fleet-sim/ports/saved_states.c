// Saved states of a shard: bases, cells, and which base a state is kept by. Called by sim_storage.c
// on the shard's thread; content_store.c makes one for each store.
//
//   block := u16 base (its number + 1; 0: whole; 0x8000 added: its seal is left out), varint size
//            of what follows, delta or bytes
//
// A block that needs one cell has all of it; of more each but the last begins with the number of
// the next. Whether it is one says the highest bit of its reference.
#include "ports/saved_states.h"

#include "base/check.h"
#include "base/cursor.h"
#include "model/zero_pages.h"
#include "ports/state_delta.h"

#include <string.h>

#define CELLS_A_CHUNK   4096u
#define CHUNKS_MAX      (1u << 18) // 2^30 cells
#define NEXT_BYTES      4u
#define FIRST_BYTES     (SIM_STATE_CELL_BYTES - NEXT_BYTES)
#define HEAD_BYTES_MAX  5u
#define BLOCK_BYTES_MAX (HEAD_BYTES_MAX + SIM_STATE_BYTES_MAX)
#define REF_ONE         0x80000000u
#define BASE_SEALED     0x8000u
#define BASE_BYTES_MAX  4096u // larger states are kept whole
#define BASES_TRIED     8u    // of one size, those made last
// A base more costs its bytes once, so it comes when a delta takes more than a cell, and not more
// often than this many puts.
#define PUTS_A_BASE 64u

struct family {
    uint16_t bases[BASES_TRIED]; // numbers + 1, the last one made at `next - 1`
    uint8_t next;
};

struct base {
    uint8_t *bytes;
    uint16_t size;
};

struct sim_states {
    const struct base_alloc_port *alloc;
    uint8_t **chunks;
    uint32_t chunk_count;
    uint32_t chunk_room;
    uint32_t cell_count; // that were ever used
    uint32_t cell_free;  // chain of free ones, number + 1
    uint32_t since_base; // puts
    struct sim_states_stats stats;
    struct family families[BASE_BYTES_MAX + 1]; // by size
    struct base bases[SIM_STATE_BASES_MAX];
    uint8_t block[BLOCK_BYTES_MAX];
    uint8_t other[BLOCK_BYTES_MAX]; // a longer one, or what a check gives
};

static void *take(struct sim_states *states, size_t size)
{
    void *memory = states->alloc->alloc(states->alloc->ctx, size);
    states->stats.bytes += memory != NULL ? size : 0;
    return memory;
}

static void drop(struct sim_states *states, void *memory)
{
    states->alloc->release(states->alloc->ctx, memory);
}

enum base_status sim_states_new(const struct base_alloc_port *alloc, struct sim_states **out_states)
{
    struct sim_states *states = sim_pages_new(sizeof(*states)); // most of it is never touched
    if (states == NULL) {
        return BASE_ERR_NOMEM;
    }
    states->alloc = alloc;
    *out_states = states;
    return BASE_OK;
}

void sim_states_free(struct sim_states *states)
{
    if (states == NULL) {
        return;
    }
    for (uint32_t i = 0; i < states->chunk_count; i++) {
        drop(states, states->chunks[i]);
    }
    for (uint32_t i = 0; i < states->stats.bases; i++) {
        drop(states, states->bases[i].bytes);
    }
    drop(states, states->chunks);
    sim_pages_free(states, sizeof(*states));
}

struct sim_states_stats sim_states_stats(const struct sim_states *states)
{
    return states->stats;
}

void sim_states_merge(struct sim_states_stats *into, const struct sim_states *states)
{
    const struct sim_states_stats *from = &states->stats;
    into->kept += from->kept;
    into->whole += from->whole;
    into->bytes += from->bytes;
    into->bases += from->bases;
    into->cells += from->cells;
    into->puts += from->puts;
    into->checked += from->checked;
    into->mismatches += from->mismatches;
}

// ---- Cells

static uint8_t *cell_at(const struct sim_states *states, uint32_t number)
{
    base_assert(number < states->cell_count);
    return states->chunks[number / CELLS_A_CHUNK] +
           (size_t)(number % CELLS_A_CHUNK) * SIM_STATE_CELL_BYTES;
}

static uint32_t get_next(const uint8_t *cell)
{
    uint32_t next;
    memcpy(&next, cell, sizeof(next));
    return next;
}

static void set_next(uint8_t *cell, uint32_t next)
{
    memcpy(cell, &next, sizeof(next));
}

static bool grow_chunks(struct sim_states *states)
{
    if (states->chunk_count == CHUNKS_MAX) {
        return false;
    }
    if (states->chunk_count == states->chunk_room) {
        uint32_t room = states->chunk_room > 0 ? states->chunk_room * 2 : 16;
        uint8_t **chunks = take(states, room * sizeof(chunks[0]));
        if (chunks == NULL) {
            return false;
        }
        if (states->chunk_count > 0) {
            memcpy(chunks, states->chunks, states->chunk_count * sizeof(chunks[0]));
        }
        drop(states, states->chunks);
        states->stats.bytes -= states->chunk_room * sizeof(chunks[0]);
        states->chunks = chunks;
        states->chunk_room = room;
    }
    uint8_t *chunk = take(states, (size_t)CELLS_A_CHUNK * SIM_STATE_CELL_BYTES);
    if (chunk == NULL) {
        return false;
    }
    states->chunks[states->chunk_count++] = chunk;
    return true;
}

// A cell of nobody's is added to the free ones. False: no memory.
static bool make_free(struct sim_states *states)
{
    if (states->cell_count == states->chunk_count * CELLS_A_CHUNK && !grow_chunks(states)) {
        return false;
    }
    uint32_t number = states->cell_count++;
    set_next(cell_at(states, number), states->cell_free);
    states->cell_free = number + 1;
    return true;
}

// As many free ones at the head of their chain as asked for. False: no memory.
static bool have_free(struct sim_states *states, uint32_t wanted)
{
    uint32_t free_count = 0;
    for (uint32_t at = states->cell_free; at != 0 && free_count < wanted; free_count++) {
        at = get_next(cell_at(states, at - 1));
    }
    while (free_count < wanted && make_free(states)) {
        free_count++;
    }
    return free_count == wanted;
}

static uint32_t cells_for(size_t size)
{
    size_t more = size > SIM_STATE_CELL_BYTES ? size - SIM_STATE_CELL_BYTES : 0;
    return 1 + (uint32_t)((more + FIRST_BYTES - 1) / FIRST_BYTES);
}

// There are as many free cells as it takes.
static sim_state_ref block_write(struct sim_states *states, const uint8_t *block, size_t size)
{
    const sim_state_ref first = states->cell_free;
    const uint32_t taken = cells_for(size);
    uint32_t number = first;
    base_assert(size > 0);
    while (size > SIM_STATE_CELL_BYTES) {
        uint8_t *cell = cell_at(states, number - 1);
        number = get_next(cell); // free cells are chained as those of a block are
        memcpy(cell + NEXT_BYTES, block, FIRST_BYTES);
        block += FIRST_BYTES;
        size -= FIRST_BYTES;
    }
    uint8_t *last = cell_at(states, number - 1);
    states->cell_free = get_next(last);
    states->stats.cells += taken;
    memcpy(last, block, size);
    return number == first ? first | REF_ONE : first;
}

static size_t block_size(const uint8_t *block, size_t *out_head)
{
    struct base_reader reader;
    base_reader_init(&reader, block, HEAD_BYTES_MAX);
    (void)base_reader_u16(&reader);
    size_t size = (size_t)base_reader_varint_max(&reader, SIM_STATE_BYTES_MAX);
    base_check(reader.status == BASE_OK);
    *out_head = base_reader_offset(&reader);
    return *out_head + size;
}

// Into states->block; how many bytes. *out_last is its last cell.
static size_t block_read(struct sim_states *states, sim_state_ref ref, uint32_t *out_last)
{
    uint32_t number = (ref & ~REF_ONE) - 1;
    const uint8_t *cell = cell_at(states, number);
    size_t head;
    size_t size = block_size((ref & REF_ONE) != 0 ? cell : cell + NEXT_BYTES, &head);
    size_t at = 0;
    base_check(((ref & REF_ONE) != 0) == (size <= SIM_STATE_CELL_BYTES));
    while (size - at > SIM_STATE_CELL_BYTES) {
        memcpy(states->block + at, cell + NEXT_BYTES, FIRST_BYTES);
        at += FIRST_BYTES;
        number = get_next(cell) - 1;
        cell = cell_at(states, number);
    }
    memcpy(states->block + at, cell, size - at);
    *out_last = number;
    return size;
}

// Of the block in states->block, as it stands there.
static unsigned block_base(const struct sim_states *states)
{
    return (unsigned)(states->block[0] | states->block[1] << 8);
}

void sim_states_drop(struct sim_states *states, sim_state_ref *ref)
{
    uint32_t last;
    if (*ref == 0) {
        return;
    }
    states->stats.cells -= cells_for(block_read(states, *ref, &last));
    states->stats.kept--;
    states->stats.whole -= block_base(states) == 0;
    set_next(cell_at(states, last), states->cell_free);
    states->cell_free = *ref & ~REF_ONE;
    *ref = 0;
}

// ---- Blocks

// Head and, behind it, what the writer has room for.
static void block_begin(struct base_writer *writer, uint16_t base, size_t size)
{
    base_writer_u16(writer, base);
    base_writer_varint(writer, size);
}

static size_t whole_block(uint8_t *out, struct base_span bytes)
{
    struct base_writer writer;
    base_writer_init(&writer, out, BLOCK_BYTES_MAX);
    block_begin(&writer, 0, bytes.size);
    base_writer_bytes(&writer, bytes.data, bytes.size);
    base_check(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

// By this base, when that takes fewer than `below` bytes; else SIZE_MAX.
static size_t delta_block(const struct sim_states *states, uint16_t number, struct base_span bytes,
                          size_t below, uint8_t *out)
{
    const struct base *base = &states->bases[number - 1];
    bool sealed = sim_state_is_sealed(bytes.data, bytes.size);
    uint8_t delta[BASE_BYTES_MAX];
    base_assert(base->size == bytes.size);
    size_t most = below < sizeof(delta) ? below : sizeof(delta);
    size_t size =
        sim_delta_find(base->bytes, bytes.data,
                       sealed ? bytes.size - SIM_STATE_SEAL_BYTES : bytes.size, delta, most);
    struct base_writer writer;
    base_writer_init(&writer, out, below - 1);
    if (size == SIZE_MAX) {
        return SIZE_MAX;
    }
    block_begin(&writer, sealed ? number | BASE_SEALED : number, size);
    base_writer_bytes(&writer, delta, size);
    return writer.status == BASE_OK ? base_writer_size(&writer) : SIZE_MAX;
}

// A state out of states->block.
static enum base_status unpack(const struct sim_states *states, uint8_t *out, size_t capacity,
                               size_t *out_size)
{
    size_t head;
    size_t size = block_size(states->block, &head) - head;
    unsigned base = block_base(states);
    const struct base *of = base != 0 ? &states->bases[(base & ~BASE_SEALED) - 1] : NULL;
    size_t whole = of != NULL ? of->size : size;
    if (whole > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    if (of == NULL && whole > 0) {
        memcpy(out, states->block + head, whole);
    } else if (of != NULL) {
        memcpy(out, of->bytes, whole);
        base_check(sim_delta_apply(states->block + head, size, out, whole));
    }
    if ((base & BASE_SEALED) != 0) {
        sim_state_seal(out, whole);
    }
    *out_size = whole;
    return BASE_OK;
}

enum base_status sim_states_get(struct sim_states *states, sim_state_ref ref, uint8_t *out,
                                size_t capacity, size_t *out_size)
{
    uint32_t last;
    if (ref == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    (void)block_read(states, ref, &last);
    return unpack(states, out, capacity, out_size);
}

// ---- Bases

// The shortest block by the bases made last, below `best` bytes; SIZE_MAX: none is. In
// states->block.
static size_t nearest(struct sim_states *states, struct base_span bytes, size_t best)
{
    const struct family *family = &states->families[bytes.size];
    size_t found = SIZE_MAX;
    for (uint32_t i = 1; i <= BASES_TRIED && best > SIM_STATE_CELL_BYTES; i++) {
        uint16_t number = family->bases[(family->next - i) % BASES_TRIED];
        size_t size =
            number != 0 ? delta_block(states, number, bytes, best, states->other) : SIZE_MAX;
        if (size != SIZE_MAX) {
            base_assert(size < best);
            memcpy(states->block, states->other, size);
            found = best = size;
        }
    }
    return found;
}

// Makes the state a base. Without memory there is none.
static bool add_base(struct sim_states *states, struct base_span bytes)
{
    struct family *family = &states->families[bytes.size];
    if (states->stats.bases == SIM_STATE_BASES_MAX) {
        return false;
    }
    uint8_t *copy = take(states, bytes.size);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, bytes.data, bytes.size);
    states->bases[states->stats.bases++] = (struct base){copy, (uint16_t)bytes.size};
    family->bases[family->next % BASES_TRIED] = (uint16_t)states->stats.bases;
    family->next++;
    states->since_base = 0;
    return true;
}

// The block of a state, in states->block; its size.
static size_t pack(struct sim_states *states, struct base_span bytes, bool alone)
{
    if (alone || bytes.size == 0 || bytes.size > BASE_BYTES_MAX) {
        return whole_block(states->block, bytes);
    }
    size_t size = nearest(states, bytes, bytes.size);
    bool first = states->families[bytes.size].bases[0] == 0;
    bool far = size == SIZE_MAX || size > SIM_STATE_CELL_BYTES;
    states->since_base++;
    if (far && (first || states->since_base >= PUTS_A_BASE) && add_base(states, bytes)) {
        size = nearest(states, bytes, bytes.size);
    }
    return size != SIZE_MAX ? size : whole_block(states->block, bytes);
}

// Does what was packed come back as it was?
static bool is_exact(struct sim_states *states, struct base_span bytes)
{
    size_t size;
    states->stats.checked++;
    bool same = unpack(states, states->other, sizeof(states->other), &size) == BASE_OK &&
                size == bytes.size && (size == 0 || memcmp(states->other, bytes.data, size) == 0);
    states->stats.mismatches += !same;
    return same;
}

enum base_status sim_states_put(struct sim_states *states, sim_state_ref *ref,
                                struct base_span bytes, bool alone)
{
    base_check(bytes.size <= SIM_STATE_BYTES_MAX);
    size_t size = pack(states, bytes, alone);
    if (states->stats.puts++ % SIM_STATE_CHECK_EVERY == 0 && !is_exact(states, bytes)) {
        size = whole_block(states->block, bytes);
    }
    if (!have_free(states, cells_for(size))) {
        return BASE_ERR_NOMEM;
    }
    bool whole = block_base(states) == 0;
    sim_state_ref fresh = block_write(states, states->block, size);
    sim_states_drop(states, ref);
    states->stats.kept++;
    states->stats.whole += whole;
    *ref = fresh;
    return BASE_OK;
}
