// Any two texts as results: nothing is read behind them, agreement goes both ways and holds with
// itself, a tolerance never makes agreement less, and exact agreement means equal digests.
//
// Input: u8 size of the first, in fractions of 256 of the rest, then both.
#include "fuzz_target.h"

#include "core/run/result_compare.h"
#include "core/run/result_syntax.h"
#include "core/base/runtime.h"
#include "core/run/result_digest.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static void look(struct base_str a, struct base_str b)
{
    const struct wire_tolerances exact = {0};
    const struct wire_tolerances loose = {
        .count = 2,
        .items = {{.relative = 0.5}, {.absolute = 10, .field_size = 1, .field = "a"}},
    };
    struct dev_difference difference = {.place = 0};
    enum dev_agreement strict = dev_result_compare(a, b, &exact, &difference);
    enum dev_agreement wide = dev_result_compare(a, b, &loose, &difference);
    enum dev_agreement back = dev_result_compare(b, a, &loose, &difference);
    base_check(strlen(difference.text) <= DEV_DIFFERENCE_TEXT);
    base_check((wide == DEV_AGREEMENT_AGREE) == (back == DEV_AGREEMENT_AGREE));
    bool ok = dev_json_ok(a, DEV_COMPARE_DEPTH_MAX) && dev_json_ok(b, DEV_COMPARE_DEPTH_MAX);
    base_check(ok || strict == DEV_AGREEMENT_UNKNOWN);
    if (strict == DEV_AGREEMENT_AGREE) {
        base_check(wide == DEV_AGREEMENT_AGREE);
        base_check(dev_result_digest(a) == dev_result_digest(b));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    size_t first = (size - 1) * data[0] / 256;
    size_t rest = size - 1 - first;
    char *one = malloc(first + 1);
    char *other = malloc(rest + 1);
    struct dev_difference difference;
    if (one != NULL && other != NULL) {
        memcpy(one, data + 1, first);
        memcpy(other, data + 1 + first, rest);
        struct base_str a = {one, first};
        struct base_str b = {other, rest};
        look(a, b);
        const struct wire_tolerances exact = {0};
        if (dev_json_ok(a, DEV_COMPARE_DEPTH_MAX)) {
            base_check(dev_result_compare(a, a, &exact, &difference) == DEV_AGREEMENT_AGREE);
        }
    }
    free(one);
    free(other);
    return 0;
}
