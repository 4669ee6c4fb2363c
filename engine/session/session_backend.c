// Costs a program on every backend this processor has, by the search's rates, and takes the least.
//
// Products count their operations, everything else its operations or its bytes, whichever takes
// longer. Copies are what a layout costs: rasters, and operands converted to bfloat16. All backends
// here work on the same memory, so that a command left to the reference costs no copy, only the
// reference's time. Called by segment.c on the session's thread.
#include "session/session_backend.h"

#include "backend/cpu/conv_plan.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/kernel/isa.h"
#include "base/check.h"
#include "search/search.h"

#include <string.h>

#define VECTOR_PART    0.25 // of the rate of products, that elementwise commands reach
#define OPS_OF_ELEMENT 4.0  // of a command that is no product and no expression
#define REF_OPS        8.0  // of the reference per element: it looks at types one by one
#define LOW_SIZE_MIN   16   // products smaller along K or N are not converted (gemm_prepare.c)

// What one command has to do, whoever does it.
struct work {
    double flops;         // of products
    double elements;      // written
    double ops;           // per element, of all others
    double bytes;         // read and written
    double convert_bytes; // to bfloat16, in low precision
    bool is_product, is_copy, may_be_low;
};

static double count_of(const struct eng_program *program, uint32_t tensor)
{
    return tensor != ENG_NONE ? (double)eng_desc_count(&program->tensors[tensor].desc) : 0;
}

static double bytes_of(const struct eng_program *program, uint32_t tensor)
{
    return tensor != ENG_NONE ? (double)eng_desc_bytes(&program->tensors[tensor].desc) : 0;
}

static double box_count(const struct eng_box *box)
{
    double count = 1;
    for (uint32_t d = 0; d < box->rank; d++) {
        count *= (double)box->size[d];
    }
    return count;
}

// Operations of a convolution for each element of its image: those of one output channel's weights.
static double weights_of_channel(const struct eng_program *program, uint32_t weights)
{
    const struct eng_desc *desc = &program->tensors[weights].desc;
    const double channels = desc->rank > 0 && desc->dims[0] > 0 ? (double)desc->dims[0] : 1;
    return count_of(program, weights) / channels;
}

static double conv_flops(const struct eng_program *program, const struct eng_command *command)
{
    return 2 * count_of(program, command->outputs[0]) *
           weights_of_channel(program, command->inputs[1]);
}

static void work_of_product(const struct eng_program *program, const struct eng_command *command,
                            struct work *work)
{
    work->is_product = true;
    switch (command->op) {
    case ENG_OP_MATMUL: {
        const int64_t n = command->box.size[command->u.matmul.batch_rank + 1];
        const int64_t k = command->box.size[command->u.matmul.batch_rank + 2];
        work->flops = 2 * box_count(&command->box);
        work->may_be_low = program->tensors[command->inputs[1]].kind == ENG_CONST &&
                           n >= LOW_SIZE_MIN && k >= LOW_SIZE_MIN;
        break;
    }
    case ENG_OP_CONV:
        work->flops = conv_flops(program, command);
        work->may_be_low =
            program->tensors[command->inputs[1]].kind == ENG_CONST && command->u.conv.groups == 1;
        break;
    case ENG_OP_CONV_CHAIN:
        base_assert(command->u.chain->count >= 2 && command->u.chain->count <= ENG_CHAIN_MAX);
        for (uint32_t i = 0; i < command->u.chain->count; i++) {
            work->flops += conv_flops(program, &command->u.chain->convs[i]);
        }
        break;
    case ENG_OP_CONV_GRAD_INPUT:
        work->flops = 2 * count_of(program, command->inputs[0]) *
                      weights_of_channel(program, command->inputs[1]);
        break;
    case ENG_OP_CONV_GRAD_WEIGHT:
        work->flops = 2 * count_of(program, command->inputs[1]) *
                      weights_of_channel(program, command->outputs[0]);
        break;
    default: { // ENG_OP_ATTENTION; its box is B, H, S, T, D, E
        const int64_t *size = command->box.size;
        base_assert(command->op == ENG_OP_ATTENTION && command->box.rank == 6);
        work->flops = 2 * (double)size[0] * (double)size[1] * (double)size[2] * (double)size[3] *
                      (double)(size[4] + size[5]);
        break;
    }
    }
    work->convert_bytes = work->may_be_low ? 2 * bytes_of(program, command->inputs[0]) : 0;
}

static double raster_bytes(const struct eng_program *program, const struct eng_command *command)
{
    const struct eng_desc *desc = &program->tensors[command->outputs[0]].desc;
    const double count = (double)eng_desc_count(desc);
    const double element = count > 0 ? (double)eng_desc_bytes(desc) / count : 0;
    double moved = 0;
    for (uint32_t r = 0; r < command->u.raster.count; r++) {
        const struct eng_region *region = &command->u.raster.regions[r];
        double elements = 1;
        for (uint32_t d = 0; d < region->rank; d++) {
            elements *= (double)region->size[d];
        }
        moved += elements;
    }
    return 2 * moved * element;
}

static struct work work_of(const struct eng_program *program, const struct eng_command *command)
{
    base_assert(command->output_count > 0);
    struct work w = {.ops = OPS_OF_ELEMENT};
    for (uint32_t i = 0; i < command->output_count; i++) {
        w.elements += count_of(program, command->outputs[i]);
        w.bytes += bytes_of(program, command->outputs[i]);
    }
    for (uint32_t i = 0; i < command->input_count; i++) {
        w.bytes += bytes_of(program, command->inputs[i]);
    }
    switch (command->op) {
    case ENG_OP_MATMUL:
    case ENG_OP_CONV:
    case ENG_OP_CONV_CHAIN:
    case ENG_OP_CONV_GRAD_INPUT:
    case ENG_OP_CONV_GRAD_WEIGHT:
    case ENG_OP_ATTENTION:
        work_of_product(program, command, &w);
        break;
    case ENG_OP_RASTER:
        w.is_copy = true;
        w.bytes = raster_bytes(program, command);
        break;
    case ENG_OP_EXPR:
        w.ops = command->u.expr->op_count;
        break;
    default:
        break;
    }
    return w;
}

// --- backends ------------------------------------------------------------------------------------

struct option {
    const char *name;
    const struct eng_kernels *kernels; // NULL: the reference
    double flops_per_us, low_flops_per_us;
};

struct rates {
    const struct eng_machine *machine;
    double ref_flops_per_us;
    double l2_bytes, l3_bytes, threads;
};

static double bytes_us(const struct rates *rates, double bytes)
{
    return bytes * 1e6 / eng_machine_bytes(rates->machine, bytes, rates->l2_bytes, rates->l3_bytes);
}

static double ref_us(const struct rates *rates, const struct work *work)
{
    base_assert(rates->ref_flops_per_us > 0);
    return (work->flops + REF_OPS * work->elements) / rates->ref_flops_per_us;
}

static void add_command(const struct rates *rates, const struct option *option,
                        const struct work *work, bool is_taken, struct eng_graph_cost *cost)
{
    base_assert(option->flops_per_us > 0 && rates->threads >= 1);
    if (option->kernels == NULL) {
        double *where = work->is_copy      ? &cost->copies_us
                        : work->is_product ? &cost->compute_us
                                           : &cost->other_us;
        *where += ref_us(rates, work);
    } else if (!is_taken) {
        cost->fallback_us += ref_us(rates, work);
    } else if (work->is_copy) {
        cost->copies_us += bytes_us(rates, work->bytes) / rates->threads;
    } else if (work->is_product) {
        const bool low = work->may_be_low && option->low_flops_per_us > 0;
        const double rate = low ? option->low_flops_per_us : option->flops_per_us;
        cost->compute_us += work->flops / rate / rates->threads;
        cost->copies_us += low ? bytes_us(rates, work->convert_bytes) / rates->threads : 0;
    } else {
        const double ops = work->ops * work->elements / (option->flops_per_us * VECTOR_PART);
        const double move = bytes_us(rates, work->bytes);
        cost->other_us += (ops > move ? ops : move) / rates->threads;
    }
}

static size_t list_options(const struct eng_session *session, struct option out[ENG_RATES_MAX])
{
    size_t count = 0;
    // The best first; it stays unless another is clearly better.
    out[count++] = (struct option){.name = session->kernels->name, .kernels = session->kernels};
    for (int i = ENG_ISA_COUNT - 1; i >= 0; i--) {
        const struct eng_kernels *kernels = eng_kernels_find(eng_isa_name((enum eng_isa)i));
        if (kernels != NULL && kernels != session->kernels && kernels->gemm != NULL) {
            out[count++] = (struct option){.name = kernels->name, .kernels = kernels};
        }
    }
    out[count++] = (struct option){.name = "ref"};
    base_assert(count <= ENG_RATES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct option *option = &out[i];
        option->flops_per_us = eng_search_flops(session->search, option->name) / 1e6;
        if (option->kernels != NULL) {
            const struct eng_prepare prepare = {.kernels = option->kernels,
                                                .precision = session->options.precision};
            option->low_flops_per_us =
                option->flops_per_us * eng_conv_low_speed(eng_gemm_low_kernels(&prepare));
        }
    }
    return count;
}

static double program_flops(const struct eng_program *program)
{
    double flops = 0;
    for (uint32_t i = 0; i < program->command_count; i++) {
        const struct work w = work_of(program, &program->commands[i]);
        flops += w.is_product ? w.flops : w.elements;
    }
    return flops;
}

static size_t cost_options(const struct eng_session *session, const struct eng_program *program,
                           const struct option *options, size_t count,
                           struct eng_graph_cost costs[ENG_RATES_MAX])
{
    const struct eng_cpu *cpu = eng_cpu_detect();
    const struct rates rates = {.machine = eng_search_machine(session->search),
                                .ref_flops_per_us = eng_search_flops(session->search, "ref") / 1e6,
                                .l2_bytes = (double)cpu->l2_bytes,
                                .l3_bytes = (double)cpu->l3_bytes,
                                .threads = session->options.threads};
    size_t least = 0;
    base_assert(rates.machine != NULL && count > 0);
    for (size_t i = 0; i < count; i++) {
        struct eng_graph_cost *cost = &costs[i];
        *cost = (struct eng_graph_cost){.backend = options[i].name};
        for (uint32_t c = 0; c < program->command_count; c++) {
            const struct eng_command *command = &program->commands[c];
            const struct work w = work_of(program, command);
            add_command(&rates, &options[i], &w, eng_cpu_takes(command->op), cost);
        }
        cost->total_us = cost->compute_us + cost->copies_us + cost->other_us + cost->fallback_us +
                         rates.machine->call_us * program->command_count;
        least = cost->total_us < costs[least].total_us ? i : least;
    }
    return least;
}

const struct eng_kernels *eng_session_backend(struct eng_session *session,
                                              const struct eng_program *program)
{
    const bool explained = session->options.explain != NULL;
    if (session->search == NULL || session->kernels == NULL ||
        (!explained && (!session->is_open || program_flops(program) < ENG_BACKEND_FLOPS_MIN))) {
        return session->kernels;
    }
    struct option options[ENG_RATES_MAX];
    struct eng_graph_cost costs[ENG_RATES_MAX];
    const size_t count = list_options(session, options);
    size_t chosen = cost_options(session, program, options, count, costs);
    const char *why = chosen == 0 ? "the least total" : "clearly the least total";
    if (!session->is_open) {
        chosen = 0;
        why = "the instruction set asked for";
    } else if (program_flops(program) < ENG_BACKEND_FLOPS_MIN) {
        chosen = 0;
        why = "a small graph takes the best instruction set";
    } else if (costs[chosen].total_us > costs[0].total_us * ENG_BACKEND_GAIN) {
        why = chosen == 0 ? why : "about the least total, and the best instruction set";
        chosen = 0;
    }
    base_assert(chosen < count);
    eng_search_note_graph(session->search, costs, count, chosen, why);
    return options[chosen].kernels;
}
