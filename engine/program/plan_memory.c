// Plans the buffer of a program's TEMP tensors. Called by the executor on the planning thread.
//
// Tensors that share a place because one is written over the other form a block; blocks are placed
// the largest first, each at the lowest offset (the smallest gap that fits) not taken at any moment
// of its life.
#include "program/plan_memory.h"

#include "base/alloc.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/ckd.h"
#include "model/graph.h"
#include "program/box_view.h"

#include <stdlib.h>

struct block {
    uint32_t begin, end; // commands: written by the first, read last by the second
    size_t bytes;
    size_t offset;
    uint32_t number; // keeps the order of equal blocks the same everywhere
};

struct planner {
    const struct eng_program *program;
    struct base_arena *arena; // scratch
    uint32_t *block_of;       // by tensor; ENG_NONE: none
    uint32_t *last_read;      // by tensor: the command that reads it last
    struct block *blocks;
    uint32_t count;
    size_t limit_bytes;
};

static uint32_t root_of(const struct eng_program *program, uint32_t tensor)
{
    base_assert(tensor < program->tensor_count);
    uint32_t alias = program->tensors[tensor].alias;
    return alias == ENG_NONE ? tensor : alias;
}

static void find_last_reads(const struct planner *planner)
{
    const struct eng_program *program = planner->program;
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct eng_command *command = &program->commands[c];
        for (uint32_t i = 0; i < command->input_count; i++) {
            if (command->inputs[i] != ENG_NONE) {
                planner->last_read[root_of(program, command->inputs[i])] = c;
            }
        }
    }
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        if (program->tensors[t].is_output) {
            planner->last_read[root_of(program, t)] = program->command_count;
        }
    }
}

// Whether a command writes element i of its result after it has read element i of this operand,
// and reads no other element of it there: then both may be the same bytes.
static bool reads_in_step(const struct eng_command *command, uint32_t input)
{
    switch (command->op) {
    case ENG_OP_UNARY:
        return true;
    case ENG_OP_BINARY:
        return input < 2 && eng_view_is_dense(&command->box, &command->views[input]);
    case ENG_OP_EXPR:
        return eng_view_is_dense(&command->box, &command->views[input]);
    default:
        return false;
    }
}

// The block an elementwise command may write over, ENG_NONE when there is none.
static uint32_t block_to_reuse(const struct planner *planner, uint32_t at,
                               const struct eng_command *command)
{
    base_assert(command->outputs[0] != ENG_NONE && at < planner->program->command_count);
    const struct eng_program *program = planner->program;
    size_t bytes = eng_desc_bytes(&program->tensors[command->outputs[0]].desc);
    for (uint32_t i = 0; i < command->input_count && command->output_count == 1; i++) {
        if (command->inputs[i] == ENG_NONE || !reads_in_step(command, i)) {
            continue;
        }
        uint32_t root = root_of(program, command->inputs[i]);
        bool fits = program->tensors[root].kind == ENG_TEMP &&
                    planner->block_of[root] != ENG_NONE && planner->last_read[root] == at &&
                    eng_desc_bytes(&program->tensors[root].desc) == bytes;
        // Every other reading of the same tensor must be in step too.
        for (uint32_t j = 0; j < command->input_count && fits; j++) {
            fits = command->inputs[j] == ENG_NONE || root_of(program, command->inputs[j]) != root ||
                   reads_in_step(command, j);
        }
        if (fits) {
            return planner->block_of[root];
        }
    }
    return ENG_NONE;
}

// One block per tensor written, or a longer life for the block it is written over.
static enum base_status make_blocks(struct planner *planner, size_t *out_unshared)
{
    const struct eng_program *program = planner->program;
    *out_unshared = 0;
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct eng_command *command = &program->commands[c];
        for (uint32_t o = 0; o < command->output_count; o++) {
            uint32_t tensor = command->outputs[o];
            if (tensor == ENG_NONE) {
                continue;
            }
            size_t bytes =
                base_aligned(eng_desc_bytes(&program->tensors[tensor].desc), ENG_PLAN_ALIGNMENT);
            if (!base_ckd_add(*out_unshared, bytes, out_unshared)) {
                return BASE_ERR_TOO_LARGE;
            }
            // Nobody may read it: its bytes are written all the same.
            uint32_t end = planner->last_read[tensor] > c ? planner->last_read[tensor] : c;
            uint32_t block = block_to_reuse(planner, c, command);
            if (block == ENG_NONE) {
                block = planner->count++;
                planner->blocks[block] =
                    (struct block){.begin = c, .bytes = bytes, .number = block};
            }
            base_assert(planner->blocks[block].begin <= end);
            planner->blocks[block].end = end;
            planner->block_of[tensor] = block;
        }
    }
    return BASE_OK;
}

static int by_size(const void *left, const void *right)
{
    const struct block *x = left, *y = right;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return x->number < y->number ? -1 : 1;
}

static bool overlap_in_time(const struct block *left, const struct block *right)
{
    return left->begin <= right->end && right->begin <= left->end;
}

// The best place for `block` among those placed already, which are sorted by offset.
static size_t find_gap(const struct block *const *placed, uint32_t count, const struct block *block)
{
    size_t best = SIZE_MAX, best_bytes = SIZE_MAX, free_from = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct block *other = placed[i];
        if (!overlap_in_time(other, block)) {
            continue;
        }
        if (other->offset > free_from) {
            size_t gap = other->offset - free_from;
            if (gap >= block->bytes && gap < best_bytes) {
                best = free_from;
                best_bytes = gap;
            }
        }
        if (other->offset + other->bytes > free_from) {
            free_from = other->offset + other->bytes;
        }
    }
    return best == SIZE_MAX ? free_from : best;
}

static enum base_status take_place(const struct planner *planner, struct block *block,
                                   size_t offset, size_t *total)
{
    size_t end;
    block->offset = offset;
    if (!base_ckd_add(offset, block->bytes, &end) || end > planner->limit_bytes) {
        return BASE_ERR_TOO_LARGE;
    }
    *total = end > *total ? end : *total;
    return BASE_OK;
}

static enum base_status place_by_size(const struct planner *planner, size_t *out_total)
{
    const struct block **placed =
        base_arena_alloc(planner->arena, ((size_t)planner->count + 1) * sizeof(struct block *));
    struct block *sorted = base_arena_copy(planner->arena, planner->blocks,
                                           (size_t)planner->count * sizeof(struct block));
    if (placed == NULL || sorted == NULL) {
        return BASE_ERR_NOMEM;
    }
    qsort(sorted, planner->count, sizeof(*sorted), by_size);
    for (uint32_t i = 0; i < planner->count; i++) {
        struct block *block = &sorted[i];
        BASE_TRY(take_place(planner, block, find_gap(placed, i, block), out_total));
        uint32_t at = i;
        for (; at > 0 && placed[at - 1]->offset > block->offset; at--) {
            placed[at] = placed[at - 1];
        }
        placed[at] = block;
        planner->blocks[block->number].offset = block->offset;
    }
    return BASE_OK;
}

// The rule for very long programs: in order of time, the first of a few free places that fits.
#define FREE_PLACES 64u

struct free_list {
    struct {
        size_t offset, bytes;
    } places[FREE_PLACES];
    uint32_t count;
};

// Joins neighbours; when the list is full the smallest place is forgotten.
static void give_back(struct free_list *list, size_t offset, size_t bytes)
{
    base_assert(list->count <= FREE_PLACES);
    for (uint32_t i = 0; i < list->count;) {
        bool before = list->places[i].offset + list->places[i].bytes == offset;
        bool after = offset + bytes == list->places[i].offset;
        if (before || after) {
            offset = before ? list->places[i].offset : offset;
            bytes += list->places[i].bytes;
            list->places[i] = list->places[--list->count];
            i = 0;
        } else {
            i++;
        }
    }
    uint32_t at = list->count;
    if (at == FREE_PLACES) {
        at = 0;
        for (uint32_t i = 1; i < list->count; i++) {
            at = list->places[i].bytes < list->places[at].bytes ? i : at;
        }
        if (list->places[at].bytes >= bytes) {
            return;
        }
    } else {
        list->count++;
    }
    list->places[at].offset = offset;
    list->places[at].bytes = bytes;
}

static bool take_free(struct free_list *list, size_t bytes, size_t *out_offset)
{
    base_assert(list->count <= FREE_PLACES);
    base_assert(bytes > 0);
    uint32_t best = FREE_PLACES;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->places[i].bytes >= bytes &&
            (best == FREE_PLACES || list->places[i].bytes < list->places[best].bytes)) {
            best = i;
        }
    }
    if (best == FREE_PLACES) {
        return false;
    }
    *out_offset = list->places[best].offset;
    list->places[best].offset += bytes;
    list->places[best].bytes -= bytes;
    if (list->places[best].bytes == 0) {
        list->places[best] = list->places[--list->count];
    }
    return true;
}

static int by_end(const void *left, const void *right)
{
    const struct block *x = left, *y = right;
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return x->number < y->number ? -1 : 1;
}

static enum base_status place_by_time(const struct planner *planner, size_t *out_total)
{
    struct block *ending = base_arena_copy(planner->arena, planner->blocks,
                                           (size_t)planner->count * sizeof(struct block));
    if (ending == NULL) {
        return BASE_ERR_NOMEM;
    }
    qsort(ending, planner->count, sizeof(*ending), by_end);
    struct free_list list = {.count = 0};
    uint32_t ended = 0;
    for (uint32_t i = 0; i < planner->count; i++) { // blocks were made in order of their begin
        struct block *block = &planner->blocks[i];
        base_assert(i == 0 || planner->blocks[i - 1].begin <= block->begin);
        for (; ended < planner->count && ending[ended].end < block->begin; ended++) {
            const struct block *old = &planner->blocks[ending[ended].number];
            give_back(&list, old->offset, old->bytes);
        }
        size_t offset = *out_total;
        if (block->bytes > 0) {
            (void)take_free(&list, block->bytes, &offset);
        }
        BASE_TRY(take_place(planner, block, offset, out_total));
    }
    return BASE_OK;
}

static enum base_status plan(struct planner *planner, struct eng_memory_plan *out)
{
    const struct eng_program *program = planner->program;
    size_t outputs = 1;
    for (uint32_t c = 0; c < program->command_count; c++) {
        outputs += program->commands[c].output_count;
    }
    size_t numbers = ((size_t)program->tensor_count + 1) * sizeof(uint32_t);
    planner->block_of = base_arena_alloc(planner->arena, numbers);
    planner->last_read = base_arena_zalloc(planner->arena, numbers);
    planner->blocks = base_arena_alloc(planner->arena, outputs * sizeof(struct block));
    if (planner->block_of == NULL || planner->last_read == NULL || planner->blocks == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        planner->block_of[t] = ENG_NONE;
    }
    find_last_reads(planner);
    BASE_TRY(make_blocks(planner, &out->unshared_bytes));
    base_assert(planner->count < outputs);
    BASE_TRY(planner->count <= ENG_PLAN_TENSORS_MAX ? place_by_size(planner, &out->total_bytes)
                                                    : place_by_time(planner, &out->total_bytes));
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        out->offsets[t] = planner->block_of[t] == ENG_NONE
                              ? ENG_PLAN_NOWHERE
                              : planner->blocks[planner->block_of[t]].offset;
    }
    return BASE_OK;
}

enum base_status eng_program_plan_memory(const struct eng_program *program,
                                         struct base_arena *arena, size_t limit_bytes,
                                         struct eng_memory_plan *out_plan)
{
    struct eng_memory_plan made = {0};
    made.offsets =
        base_arena_alloc(arena, ((size_t)program->tensor_count + 1) * sizeof(*made.offsets));
    if (made.offsets == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct base_arena scratch;
    base_arena_init(&scratch, base_alloc_heap(), (size_t)64 << 10, 0);
    struct planner p = {.program = program, .arena = &scratch, .limit_bytes = limit_bytes};
    enum base_status status = plan(&p, &made);
    base_arena_done(&scratch);
    BASE_TRY(status);
    *out_plan = made;
    return BASE_OK;
}
