// The index behind the fusion passes: who makes and who reads each tensor. Made by fuse.c for one
// pass, in scratch memory, and asked by all fuse_*.c; on the planning thread. Aliases count as the
// tensor that owns the bytes. A command that is removed takes those along that only it needed; it
// stays in its place, marked, until the end of the pass, so that indices of commands hold
// meanwhile.
#include "program/fuse_index.h"

#include "base/check.h"
#include "program/box_view.h"

#include <string.h>

uint32_t eng_fuse_root(const struct eng_fuse *fuse, uint32_t tensor)
{
    base_assert(tensor < fuse->program->tensor_count);
    uint32_t alias = fuse->program->tensors[tensor].alias;
    return alias == ENG_NONE ? tensor : alias;
}

static enum base_status allocate(struct eng_fuse *fuse)
{
    size_t tensors = (size_t)fuse->program->tensor_count + 2;
    size_t reads = 1;
    for (uint32_t c = 0; c < fuse->program->command_count; c++) {
        reads += fuse->program->commands[c].input_count;
    }
    fuse->producer = base_arena_alloc(fuse->scratch, tensors * sizeof(uint32_t));
    fuse->uses = base_arena_zalloc(fuse->scratch, tensors * sizeof(uint32_t));
    fuse->first = base_arena_zalloc(fuse->scratch, tensors * sizeof(uint32_t));
    fuse->readers = base_arena_alloc(fuse->scratch, reads * sizeof(uint32_t));
    fuse->gone = base_arena_zalloc(fuse->scratch, (size_t)fuse->program->command_count + 1);
    fuse->list = base_arena_alloc(fuse->scratch, tensors * sizeof(uint32_t));
    if (fuse->list == NULL || fuse->producer == NULL || fuse->uses == NULL || fuse->first == NULL ||
        fuse->readers == NULL || fuse->gone == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t t = 0; t < tensors; t++) {
        fuse->producer[t] = ENG_NONE;
    }
    return BASE_OK;
}

enum base_status eng_fuse_init(struct eng_fuse *fuse, struct eng_program *program,
                               struct base_arena *scratch)
{
    *fuse = (struct eng_fuse){.program = program, .scratch = scratch};
    BASE_TRY(allocate(fuse));
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct eng_command *command = &program->commands[c];
        for (uint32_t i = 0; i < command->input_count; i++) {
            if (command->inputs[i] != ENG_NONE) {
                uint32_t root = eng_fuse_root(fuse, command->inputs[i]);
                fuse->uses[root]++;
                fuse->first[root + 1]++;
            }
        }
        for (uint32_t o = 0; o < command->output_count; o++) {
            if (command->outputs[o] != ENG_NONE) {
                fuse->producer[command->outputs[o]] = c;
            }
        }
    }
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        fuse->first[t + 1] += fuse->first[t];
        if (program->tensors[t].is_output) {
            fuse->uses[eng_fuse_root(fuse, t)]++;
        }
    }
    uint32_t *fill = base_arena_copy(scratch, fuse->first,
                                     ((size_t)program->tensor_count + 1) * sizeof(uint32_t));
    if (fill == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct eng_command *command = &program->commands[c];
        for (uint32_t i = 0; i < command->input_count; i++) {
            if (command->inputs[i] != ENG_NONE) {
                fuse->readers[fill[eng_fuse_root(fuse, command->inputs[i])]++] = c;
            }
        }
    }
    base_assert(program->tensor_count == 0 ||
                fill[program->tensor_count - 1] == fuse->first[program->tensor_count]);
    return BASE_OK;
}

struct eng_command *eng_fuse_producer(const struct eng_fuse *fuse, uint32_t tensor)
{
    if (tensor == ENG_NONE) {
        return NULL;
    }
    uint32_t command = fuse->producer[eng_fuse_root(fuse, tensor)];
    return command == ENG_NONE ? NULL : &fuse->program->commands[command];
}

static bool reads(const struct eng_fuse *fuse, uint32_t command, uint32_t root)
{
    base_assert(command < fuse->program->command_count);
    const struct eng_command *c = &fuse->program->commands[command];
    for (uint32_t i = 0; i < c->input_count; i++) {
        if (c->inputs[i] != ENG_NONE && eng_fuse_root(fuse, c->inputs[i]) == root) {
            return true;
        }
    }
    return false;
}

uint32_t eng_fuse_only_reader(const struct eng_fuse *fuse, uint32_t tensor)
{
    uint32_t root = eng_fuse_root(fuse, tensor);
    if (fuse->uses[root] != 1) {
        return ENG_NONE;
    }
    for (uint32_t i = fuse->first[root]; i < fuse->first[root + 1]; i++) {
        uint32_t reader = fuse->readers[i];
        if (!fuse->gone[reader] && reads(fuse, reader, root)) {
            return reader;
        }
    }
    return ENG_NONE; // it is an output of the program
}

// Takes the uses of a command's inputs back; producers that nobody needs any more are listed.
static void release_inputs(struct eng_fuse *fuse, const struct eng_command *command,
                           uint32_t *unneeded, uint32_t *count)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] == ENG_NONE) {
            continue;
        }
        uint32_t root = eng_fuse_root(fuse, command->inputs[i]);
        base_check(fuse->uses[root] > 0);
        fuse->uses[root]--;
        uint32_t producer = fuse->producer[root];
        if (fuse->uses[root] == 0 && producer != ENG_NONE && !fuse->gone[producer]) {
            unneeded[(*count)++] = producer;
        }
    }
}

static bool is_needed(const struct eng_fuse *fuse, const struct eng_command *command)
{
    for (uint32_t o = 0; o < command->output_count; o++) {
        if (command->outputs[o] != ENG_NONE && fuse->uses[command->outputs[o]] > 0) {
            return true;
        }
    }
    return false;
}

// Removes what `command` alone needed. A command is listed when one of its outputs loses its last
// use, which happens once per tensor.
static void release(struct eng_fuse *fuse, const struct eng_command *command)
{
    uint32_t count = 0;
    release_inputs(fuse, command, fuse->list, &count);
    while (count > 0) {
        uint32_t next = fuse->list[--count];
        base_assert(next < fuse->program->command_count);
        const struct eng_command *dead = &fuse->program->commands[next];
        if (!fuse->gone[next] && !is_needed(fuse, dead)) {
            fuse->gone[next] = true;
            release_inputs(fuse, dead, fuse->list, &count);
        }
    }
}

void eng_fuse_remove(struct eng_fuse *fuse, uint32_t command)
{
    base_assert(command < fuse->program->command_count);
    base_assert(!fuse->gone[command]);
    fuse->gone[command] = true;
    release(fuse, &fuse->program->commands[command]);
}

void eng_fuse_sweep(struct eng_fuse *fuse)
{
    for (uint32_t c = fuse->program->command_count; c > 0; c--) {
        if (!fuse->gone[c - 1] && !is_needed(fuse, &fuse->program->commands[c - 1])) {
            eng_fuse_remove(fuse, c - 1);
        }
    }
}

void eng_fuse_replace(struct eng_fuse *fuse, uint32_t at, const struct eng_command *with)
{
    base_assert(at < fuse->program->command_count);
    struct eng_command old = fuse->program->commands[at];
    // The new uses first, so that what both need stays.
    for (uint32_t i = 0; i < with->input_count; i++) {
        if (with->inputs[i] != ENG_NONE) {
            fuse->uses[eng_fuse_root(fuse, with->inputs[i])]++;
        }
    }
    fuse->program->commands[at] = *with;
    fuse->program->commands[at].outputs = old.outputs;
    fuse->program->commands[at].output_count = old.output_count;
    release(fuse, &old);
}

void eng_fuse_finish(struct eng_fuse *fuse)
{
    struct eng_program *program = fuse->program;
    uint32_t kept = 0;
    for (uint32_t c = 0; c < program->command_count; c++) {
        if (!fuse->gone[c]) {
            program->commands[kept++] = program->commands[c];
        }
    }
    program->command_count = kept;
    base_assert(kept <= program->command_capacity);
}

bool eng_fuse_is_f32(const struct eng_fuse *fuse, uint32_t tensor)
{
    return tensor != ENG_NONE && fuse->program->tensors[tensor].desc.dtype == ENG_F32;
}

int64_t eng_fuse_count(const struct eng_fuse *fuse, uint32_t tensor)
{
    base_assert(tensor < fuse->program->tensor_count);
    return eng_desc_count(&fuse->program->tensors[tensor].desc);
}

bool eng_fuse_constant(const struct eng_fuse *fuse, const struct eng_command *command,
                       uint32_t input, float *out)
{
    base_assert(command->op == ENG_OP_BINARY);
    base_assert(input < command->input_count);
    const struct eng_view *view = &command->views[input];
    if (!eng_fuse_is_f32(fuse, command->inputs[input])) {
        return false;
    }
    const struct eng_tensor *tensor =
        &fuse->program->tensors[eng_fuse_root(fuse, command->inputs[input])];
    if (tensor->kind != ENG_CONST || tensor->data == NULL || eng_desc_count(&tensor->desc) == 0 ||
        !eng_view_is_one(&command->box, view)) {
        return false;
    }
    memcpy(out, (const float *)tensor->data + view->offset, sizeof(*out));
    return true;
}

bool eng_fuse_is_binary(const struct eng_fuse *fuse, const struct eng_command *command,
                        enum eng_binary_fn fn)
{
    return command != NULL && command->op == ENG_OP_BINARY && command->u.binary.fn == fn &&
           eng_fuse_is_f32(fuse, command->inputs[0]) && eng_fuse_is_f32(fuse, command->inputs[1]);
}

bool eng_fuse_is_unary(const struct eng_fuse *fuse, const struct eng_command *command,
                       enum eng_unary_fn fn)
{
    return command != NULL && command->op == ENG_OP_UNARY && command->u.unary.fn == fn &&
           eng_fuse_is_f32(fuse, command->inputs[0]);
}
