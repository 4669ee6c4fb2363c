// Saved states of a shard: bases, cells, and which base a state is kept by. Called by sim_storage.c
// on the shard's thread; content_store.c makes one for each store.
//
//   block := u16 base (its number + 1; 0: whole; 0x8000 added: its seal is left out), varint size
//            of what follows, delta or bytes
//
// A block lies in the smallest cell that it fits in, or in a larger one that is free. What none is
// large enough for lies in several of the largest, of which each but the last begins with the
// number of the next. Of which size its cells are, and whether they are several, says its
// reference.
#include "ports/saved_states.h"

#include "base/check.h"
#include "base/cursor.h"
#include "model/zero_pages.h"
#include "ports/state_delta.h"

#include <string.h>

#define CELLS_A_CHUNK   256u
#define KINDS           15u // sizes of cells
#define CHAINED         KINDS
#define KIND_SHIFT      28 // of a reference; below stands the number of the first cell + 1
#define CELLS_MAX       ((1u << KIND_SHIFT) - 1)
#define NEXT_BYTES      4u
#define CELL_BYTES_MAX  48u
#define FIRST_BYTES     (CELL_BYTES_MAX - NEXT_BYTES)
#define HEAD_BYTES_MAX  5u
#define BLOCK_BYTES_MAX (HEAD_BYTES_MAX + SIM_STATE_BYTES_MAX)
#define BASE_SEALED     0x8000u
#define BASE_BYTES_MAX  4096u // larger states are kept whole
#define BASES_TRIED     8u    // of one size, those made last
#define NEAR_BYTES      26u   // of a block; what is near enough is looked for no further
// A base more costs its bytes once, so it comes when none is near, and the later the more there
// are: each has as many more states to be near to.
#define PUTS_A_BASE  64u
#define BASES_A_STEP 8u // ... of puts more

static const uint8_t cell_bytes[KINDS] = {
    10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, CELL_BYTES_MAX};

struct cells {
    uint8_t **chunks;
    uint32_t chunk_count;
    uint32_t chunk_room;
    uint32_t count; // cells that were ever used
    uint32_t free;  // chain of free ones, number + 1
};

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
    struct cells cells[KINDS];
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
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t i = 0; i < states->cells[kind].chunk_count; i++) {
            drop(states, states->cells[kind].chunks[i]);
        }
        drop(states, states->cells[kind].chunks);
    }
    for (uint32_t i = 0; i < states->stats.bases; i++) {
        drop(states, states->bases[i].bytes);
    }
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

static uint8_t *cell_at(const struct sim_states *states, uint32_t kind, uint32_t number)
{
    const struct cells *cells = &states->cells[kind];
    base_assert(number < cells->count);
    return cells->chunks[number / CELLS_A_CHUNK] +
           (size_t)(number % CELLS_A_CHUNK) * cell_bytes[kind];
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

static bool grow_chunks(struct sim_states *states, uint32_t kind)
{
    struct cells *cells = &states->cells[kind];
    if (cells->count > CELLS_MAX - CELLS_A_CHUNK) {
        return false;
    }
    if (cells->chunk_count == cells->chunk_room) {
        uint32_t room = cells->chunk_room > 0 ? cells->chunk_room * 2 : 4;
        uint8_t **chunks = take(states, room * sizeof(chunks[0]));
        if (chunks == NULL) {
            return false;
        }
        if (cells->chunk_count > 0) {
            memcpy(chunks, cells->chunks, cells->chunk_count * sizeof(chunks[0]));
        }
        drop(states, cells->chunks);
        states->stats.bytes -= cells->chunk_room * sizeof(chunks[0]);
        cells->chunks = chunks;
        cells->chunk_room = room;
    }
    uint8_t *chunk = take(states, (size_t)CELLS_A_CHUNK * cell_bytes[kind]);
    if (chunk == NULL) {
        return false;
    }
    cells->chunks[cells->chunk_count++] = chunk;
    return true;
}

// A cell of nobody's is added to the free ones. False: no memory.
static bool make_free(struct sim_states *states, uint32_t kind)
{
    struct cells *cells = &states->cells[kind];
    if (cells->count == cells->chunk_count * CELLS_A_CHUNK && !grow_chunks(states, kind)) {
        return false;
    }
    uint32_t number = cells->count++;
    set_next(cell_at(states, kind, number), cells->free);
    cells->free = number + 1;
    return true;
}

// As many free ones at the head of their chain as asked for. False: no memory.
static bool have_free(struct sim_states *states, uint32_t kind, uint32_t wanted)
{
    uint32_t free_count = 0;
    for (uint32_t at = states->cells[kind].free; at != 0 && free_count < wanted; free_count++) {
        at = get_next(cell_at(states, kind, at - 1));
    }
    while (free_count < wanted && make_free(states, kind)) {
        free_count++;
    }
    return free_count == wanted;
}

// Cells of the largest kind that a block takes which no cell is large enough for.
static uint32_t cells_for(size_t size)
{
    base_assert(size > CELL_BYTES_MAX);
    return 1 + (uint32_t)((size - CELL_BYTES_MAX + FIRST_BYTES - 1) / FIRST_BYTES);
}

// The kind of cell for a block, with one that is free, or CHAINED with as many as it takes. False:
// no memory.
static bool choose_kind(struct sim_states *states, size_t size, uint32_t *out)
{
    uint32_t fits = 0;
    base_assert(size > 0);
    while (fits < KINDS && cell_bytes[fits] < size) {
        fits++;
    }
    if (fits == KINDS) {
        *out = CHAINED;
        return have_free(states, KINDS - 1, cells_for(size));
    }
    *out = fits;
    while (*out < KINDS && states->cells[*out].free == 0) {
        ++*out;
    }
    *out = *out < KINDS ? *out : fits;
    return have_free(states, *out, 1);
}

static sim_state_ref ref_of(uint32_t kind, uint32_t first)
{
    base_assert(first > 0 && first <= CELLS_MAX);
    return kind << KIND_SHIFT | first;
}

static uint32_t kind_of(sim_state_ref ref)
{
    return ref >> KIND_SHIFT;
}

static uint32_t first_of(sim_state_ref ref)
{
    return ref & CELLS_MAX;
}

// There are as many free cells as it takes.
static sim_state_ref block_write(struct sim_states *states, uint32_t kind, const uint8_t *block,
                                 size_t size)
{
    const uint32_t of = kind == CHAINED ? KINDS - 1 : kind;
    struct cells *cells = &states->cells[of];
    const uint32_t first = cells->free;
    uint32_t number = first;
    base_assert((kind == CHAINED) == (size > CELL_BYTES_MAX));
    states->stats.cells += kind == CHAINED ? cells_for(size) : 1;
    while (size > CELL_BYTES_MAX) {
        uint8_t *cell = cell_at(states, of, number - 1);
        number = get_next(cell); // free cells are chained as those of a block are
        memcpy(cell + NEXT_BYTES, block, FIRST_BYTES);
        block += FIRST_BYTES;
        size -= FIRST_BYTES;
    }
    uint8_t *last = cell_at(states, of, number - 1);
    cells->free = get_next(last);
    memcpy(last, block, size);
    return ref_of(kind, first);
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
    const bool chained = kind_of(ref) == CHAINED;
    const uint32_t of = chained ? KINDS - 1 : kind_of(ref);
    uint32_t number = first_of(ref) - 1;
    const uint8_t *cell = cell_at(states, of, number);
    size_t head;
    size_t size = block_size(chained ? cell + NEXT_BYTES : cell, &head);
    size_t at = 0;
    base_check(chained ? size > CELL_BYTES_MAX : size <= cell_bytes[of]);
    while (size - at > CELL_BYTES_MAX) {
        memcpy(states->block + at, cell + NEXT_BYTES, FIRST_BYTES);
        at += FIRST_BYTES;
        number = get_next(cell) - 1;
        cell = cell_at(states, of, number);
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
    const bool chained = kind_of(*ref) == CHAINED;
    const uint32_t of = chained ? KINDS - 1 : kind_of(*ref);
    size_t size = block_read(states, *ref, &last);
    states->stats.cells -= chained ? cells_for(size) : 1;
    states->stats.kept--;
    states->stats.whole -= block_base(states) == 0;
    set_next(cell_at(states, of, last), states->cells[of].free);
    states->cells[of].free = first_of(*ref);
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
    for (uint32_t i = 1; i <= BASES_TRIED && best > NEAR_BYTES; i++) {
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

static bool is_base_due(const struct sim_states *states)
{
    return states->since_base >= PUTS_A_BASE * (1 + states->stats.bases / BASES_A_STEP);
}

// The block of a state, in states->block; its size.
static size_t pack(struct sim_states *states, struct base_span bytes, bool alone)
{
    if (alone || bytes.size == 0 || bytes.size > BASE_BYTES_MAX) {
        return whole_block(states->block, bytes);
    }
    size_t size = nearest(states, bytes, bytes.size);
    bool first = states->families[bytes.size].bases[0] == 0;
    bool far = size == SIZE_MAX || size > NEAR_BYTES;
    states->since_base++;
    if (far && (first || is_base_due(states)) && add_base(states, bytes)) {
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
    uint32_t kind;
    if (!choose_kind(states, size, &kind)) {
        return BASE_ERR_NOMEM;
    }
    bool whole = block_base(states) == 0;
    sim_state_ref fresh = block_write(states, kind, states->block, size);
    sim_states_drop(states, ref);
    states->stats.kept++;
    states->stats.whole += whole;
    *ref = fresh;
    return BASE_OK;
}
