// The reference backend's list of kernels and their preparation: finds the row of a command, checks
// the element types it was made for, and lets the family ask for scratch. Called on the planning
// thread.
#include "backend/ref/ref.h"

#include "base/check.h"

static const struct eng_ref_kernel *const families[] = {
#define FAMILY_ROW(family) eng_ref_##family,
    ENG_REF_FAMILIES(FAMILY_ROW)
#undef FAMILY_ROW
};

#define ENG_REF_NAME(NAME, name, checked, shown) "ref." #name,
static const char *const kernel_names[] = {ENG_ATOMIC_MAP(ENG_REF_NAME)};
#undef ENG_REF_NAME

static const struct eng_ref_kernel *find(enum eng_atomic op)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        for (const struct eng_ref_kernel *kernel = families[i]; kernel->run != NULL; kernel++) {
            if (kernel->op == op) {
                return kernel;
            }
        }
    }
    return NULL;
}

bool eng_ref_takes(enum eng_atomic op)
{
    return find(op) != NULL;
}

enum base_status eng_ref_refuse(const struct eng_prepare *ctx, const struct eng_step *step,
                                const char *why)
{
    return base_error_set(ctx->error, BASE_ERR_UNSUPPORTED, "%s: %s",
                          eng_atomic_text(step->command->op), why);
}

enum base_status eng_ref_scratch(struct eng_step *step, int64_t count, size_t bytes)
{
    size_t total = 0;
    if (count < 0 || __builtin_mul_overflow((size_t)count, bytes, &total)) {
        return BASE_ERR_LIMIT;
    }
    step->scratch_bytes = total;
    return BASE_OK;
}

// The type that decides: of the first operand there is.
static enum eng_dtype deciding_type(const struct eng_step *step)
{
    for (uint32_t i = 0; i < step->command->input_count; i++) {
        if (eng_ref_has(step, i)) {
            return eng_ref_in_type(step, i);
        }
    }
    return eng_ref_has_out(step, 0) ? eng_ref_out_type(step, 0) : ENG_UNDEFINED;
}

enum base_status eng_ref_prepare(const struct eng_prepare *ctx, const struct eng_program *program,
                                 const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_step step = {.program = program, .command = command};
    const struct eng_ref_kernel *kernel = find(command->op);
    if (kernel == NULL) {
        return eng_ref_refuse(ctx, &step, "no kernel");
    }
    base_assert(kernel->op == command->op);
    step.run = kernel->run;
    step.kernel = kernel_names[command->op];
    enum eng_dtype dtype = deciding_type(&step);
    if (!eng_ref_is(dtype, kernel->types)) {
        return base_error_set(ctx->error, BASE_ERR_UNSUPPORTED, "%s of %s elements",
                              eng_atomic_text(command->op), eng_dtype_name(dtype));
    }
    if (kernel->setup != NULL) {
        BASE_TRY(kernel->setup(ctx, &step));
    }
    base_assert(step.run == kernel->run && step.command == command); // setup leaves them
    *out_step = step;
    return BASE_OK;
}
