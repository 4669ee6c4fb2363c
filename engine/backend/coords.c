// Checks coordinates against their dimensions. Called by the steps of gather and scatter of both
// backends (cpu/move_index.c, ref/ref_move.c), on the session's thread, before anything moves.
// Lowering makes row numbers out of coordinates by arithmetic, after which one outside a dimension
// could pass for a good one of another row; so the coordinates themselves travel along as the
// command's last input, and the fault names the coordinate as the model has it.
#include "backend/coords.h"

#include "base/check.h"

enum base_status eng_coords_check(const struct eng_coords *coords, const struct eng_step *step,
                                  const struct eng_run *run)
{
    if (coords->depth == 0) {
        return BASE_OK;
    }
    const uint32_t tensor = step->command->inputs[step->command->input_count - 1];
    const int64_t *values = run->data[tensor];
    const int64_t count = eng_desc_count(&step->program->tensors[tensor].desc);
    base_assert(coords->depth <= ENG_RANK_MAX && count % coords->depth == 0);
    for (int64_t at = 0; at < count; at += coords->depth) {
        for (uint32_t d = 0; d < coords->depth; d++) {
            const int64_t value = values[at + d], size = coords->dims[d];
            if (value < -size || value >= size) {
                return base_error_set(run->error, BASE_ERR_INVALID,
                                      "%s: coordinate %u of row %lld is %lld, outside -%lld..%lld",
                                      eng_atomic_text(step->command->op), d,
                                      (long long)(at / coords->depth), (long long)value,
                                      (long long)size, (long long)size - 1);
            }
        }
    }
    return BASE_OK;
}
