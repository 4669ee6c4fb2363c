// Saved states of a shard: bases, shapes, cells. Called by sim_storage.c on the shard's thread;
// content_store.c makes one for each store.
//
//   block := u16 base (its number + 1; 0: whole; 0x8000 added: its seal is left out), u8 shape (its
//            number + 1; 0: none), [no shape: varint size of what follows], delta or bytes, [of a
//            shape: the bytes at its places]
//
// Without a base there is no shape. Shapes are learned from deltas that none fits. A block lies in
// the smallest cell that it fits in, or a larger free one; what fits none in several of the
// largest, each of which begins with the number of the next. Its reference says which size it has.
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
#define HEAD_BYTES_MAX  6u
#define BLOCK_BYTES_MAX (HEAD_BYTES_MAX + SIM_STATE_BYTES_MAX)
#define BASE_SEALED     0x8000u
#define BASE_BYTES_MAX  4096u // larger states are kept whole
#define BASES_TRIED     8u    // of one size, those made last
#define SHAPES_MAX      255u
#define SHAPES_TRIED    16u // of one size, those made last
#define SHAPE_HEAD      3u
#define SHAPE_SAVES     24u // of a delta of many runs, about
#define NEAR_BYTES      26u // of a block; what is near enough is looked for no further
// A base more costs its bytes once, so it comes when none is near, and the later the more there
// are: each has as many more states to be near to.
#define PUTS_A_BASE  64u
#define BASES_A_STEP 8u // ... of puts more
// A shape more costs little, but there are not many numbers.
#define PUTS_A_SHAPE  8u // that had none
#define SHAPES_A_STEP 8u
#define WASTE_MIN     2u // bytes a shape has that a delta would not: one of its own is better

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
    uint8_t next_shape;
    uint8_t shapes[SHAPES_TRIED]; // numbers + 1, likewise
};

struct base {
    uint8_t *bytes;
    uint16_t size;
};

struct sim_states {
    const struct base_alloc_port *alloc;
    struct cells cells[KINDS];
    uint32_t since_base;  // puts
    uint32_t since_shape; // ... that had none
    uint32_t shape_count;
    struct sim_delta_shape shapes[SHAPES_MAX];
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

// NULL: it has none.
static const struct sim_delta_shape *shape_of(const struct sim_states *states, const uint8_t *block)
{
    const uint32_t number = block[SHAPE_HEAD - 1];
    base_assert(number <= states->shape_count);
    return number != 0 ? &states->shapes[number - 1] : NULL;
}

static size_t block_size(const struct sim_states *states, const uint8_t *block, size_t *out_head)
{
    const struct sim_delta_shape *shape = shape_of(states, block);
    if (shape != NULL) {
        *out_head = SHAPE_HEAD;
        return SHAPE_HEAD + (size_t)shape->bytes;
    }
    struct base_reader reader;
    base_reader_init(&reader, block + SHAPE_HEAD, HEAD_BYTES_MAX - SHAPE_HEAD);
    size_t size = (size_t)base_reader_varint_max(&reader, SIM_STATE_BYTES_MAX);
    base_check(reader.status == BASE_OK);
    *out_head = SHAPE_HEAD + base_reader_offset(&reader);
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
    size_t size = block_size(states, chained ? cell + NEXT_BYTES : cell, &head);
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
    base_writer_u8(writer, 0);
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

// The number + 1 of the shape with the fewest bytes that changes all that a delta does; 0: none.
static uint8_t find_shape(const struct sim_states *states, size_t size, struct base_span delta)
{
    const struct family *family = &states->families[size];
    struct sim_delta_shape wanted;
    uint32_t fewest = UINT32_MAX;
    uint8_t found = 0;
    if (!sim_shape_of(delta.data, delta.size, &wanted)) {
        return 0;
    }
    for (uint32_t i = 0; i < SHAPES_TRIED; i++) {
        const uint8_t number = family->shapes[i];
        if (number != 0 && states->shapes[number - 1].bytes < fewest &&
            sim_shape_covers(&states->shapes[number - 1], &wanted)) {
            fewest = states->shapes[number - 1].bytes;
            found = number;
        }
    }
    return found;
}

// By this base, when that takes fewer than `below` bytes; else SIZE_MAX.
static size_t delta_block(const struct sim_states *states, uint16_t number, struct base_span bytes,
                          size_t below, uint8_t *out)
{
    const struct base *base = &states->bases[number - 1];
    bool sealed = sim_state_is_sealed(bytes.data, bytes.size);
    uint8_t delta[BASE_BYTES_MAX];
    base_assert(base->size == bytes.size);
    size_t most = below + SHAPE_SAVES < sizeof(delta) ? below + SHAPE_SAVES : sizeof(delta);
    size_t size =
        sim_delta_find(base->bytes, bytes.data,
                       sealed ? bytes.size - SIM_STATE_SEAL_BYTES : bytes.size, delta, most);
    struct base_writer writer;
    base_writer_init(&writer, out, below - 1);
    if (size == SIZE_MAX) {
        return SIZE_MAX;
    }
    const uint16_t head = sealed ? number | BASE_SEALED : number;
    const uint8_t shape = find_shape(states, bytes.size, (struct base_span){delta, size});
    if (shape != 0 && states->shapes[shape - 1].bytes <= size) {
        base_writer_u16(&writer, head);
        base_writer_u8(&writer, shape);
        sim_shape_take(&states->shapes[shape - 1], bytes.data, delta);
        base_writer_bytes(&writer, delta, states->shapes[shape - 1].bytes);
    } else {
        block_begin(&writer, head, size);
        base_writer_bytes(&writer, delta, size);
    }
    return writer.status == BASE_OK ? base_writer_size(&writer) : SIZE_MAX;
}

// A state out of states->block.
static enum base_status unpack(const struct sim_states *states, uint8_t *out, size_t capacity,
                               size_t *out_size)
{
    size_t head;
    size_t size = block_size(states, states->block, &head) - head;
    const struct sim_delta_shape *shape = shape_of(states, states->block);
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
        if (shape != NULL) {
            sim_shape_put(shape, states->block + head, out);
        } else {
            base_check(sim_delta_apply(states->block + head, size, out, whole));
        }
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

// ---- Shapes

// Makes one of what the state changes of its base. False: that is none of use.
static bool add_shape(struct sim_states *states, const struct base *base, struct base_span bytes)
{
    struct family *family = &states->families[bytes.size];
    struct sim_delta_shape shape;
    uint8_t delta[2 * SIM_SHAPE_BYTES_MAX];
    const size_t sealed = (block_base(states) & BASE_SEALED) != 0 ? SIM_STATE_SEAL_BYTES : 0;
    size_t size =
        sim_delta_find(base->bytes, bytes.data, bytes.size - sealed, delta, sizeof(delta));
    states->since_shape = 0;
    if (states->shape_count == SHAPES_MAX || size == SIZE_MAX ||
        !sim_shape_of(delta, size, &shape) || shape.bytes == 0) {
        return false;
    }
    states->shapes[states->shape_count++] = shape;
    family->shapes[family->next_shape++ % SHAPES_TRIED] = (uint8_t)states->shape_count;
    return true;
}

static bool is_shape_due(const struct sim_states *states)
{
    return states->since_shape >= PUTS_A_SHAPE * (1 + states->shape_count / SHAPES_A_STEP);
}

// Does the block in states->block keep little that is as its base has it?
static bool fits_well(const struct sim_states *states, const struct base *base)
{
    const struct sim_delta_shape *shape = shape_of(states, states->block);
    uint8_t of_base[SIM_SHAPE_BYTES_MAX];
    uint32_t equal = 0;
    if (shape == NULL) {
        return false;
    }
    sim_shape_take(shape, base->bytes, of_base);
    for (uint32_t i = 0; i < shape->bytes; i++) {
        equal += of_base[i] == states->block[SHAPE_HEAD + i];
    }
    return equal < WASTE_MIN;
}

// The block in states->block, of so many bytes, gets a shape of its own when none fits well and
// that is due. Its size then.
static size_t give_shape(struct sim_states *states, struct base_span bytes, size_t size)
{
    const uint16_t number = (uint16_t)(block_base(states) & ~BASE_SEALED);
    const struct base *base = &states->bases[number - 1];
    if (fits_well(states, base)) {
        return size;
    }
    states->since_shape++;
    if (!is_shape_due(states) || !add_shape(states, base, bytes)) {
        return size;
    }
    const size_t shaped = delta_block(states, number, bytes, size, states->other);
    if (shaped == SIZE_MAX) {
        return size;
    }
    memcpy(states->block, states->other, shaped);
    return shaped;
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
    if (size == SIZE_MAX) {
        return whole_block(states->block, bytes);
    }
    return give_shape(states, bytes, size);
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
