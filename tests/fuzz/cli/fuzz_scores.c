// Fuzz target of labelled scores: any bytes as a file of them. What is read adds up, and what is
// refused says why.
#include "fuzz_target.h"

#include "base/check.h"
#include "cli/fallback/scores_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pol_cuts cuts;
    struct base_error error = {0};
    if (size == 0) {
        return 0;
    }
    FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
    base_check(file != NULL);
    if (scores_read(file, &cuts, &error) == BASE_OK) {
        const struct pol_cut *last = &cuts.at[POL_CUTS - 1];
        base_check(last->sent == cuts.total);
        base_check(last->lost == 0 && last->gained == 0);
        for (size_t i = 1; i < POL_CUTS; i++) {
            base_check(cuts.at[i].sent >= cuts.at[i - 1].sent);
            base_check(cuts.at[i].right <= cuts.total);
        }
        base_check(pol_cuts_choose(&cuts, POL_AIM_WITHIN, 0.1, 0.05) <= POL_CUTS);
    } else {
        base_check(error.text[0] != '\0');
    }
    (void)fclose(file);
    return 0;
}
