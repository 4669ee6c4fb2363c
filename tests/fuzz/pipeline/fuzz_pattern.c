// A pattern's text. No crash; what is refused says where inside the text; what is accepted prints a
// normal form that parses to the same normal form, and has no more variants than it may. One that
// asks for its time-outs has an opening, which is a pattern, and there is room for it.
#include "fuzz_target.h"

#include "base/check.h"
#include "pipeline/trigger/pattern.h"
#include "pipeline/trigger/timeouts.h"

#include <string.h>

static void opening(struct base_str text, bool asks)
{
    char room[DEV_TIMEOUT_TEXTS(DEV_PATTERN_TEXT_MAX, 1)];
    struct dev_timeout_ask ask;
    struct dev_pattern pattern;
    enum base_status status = dev_timeout_ask(text, room, DEV_TIMEOUT_TEXTS(text.size, 1), &ask);
    base_check(status == (asks ? BASE_OK : BASE_ERR_NOT_FOUND));
    base_check(!asks ||
               (ask.within_ms > 0 && dev_pattern_parse(ask.opening, &pattern, NULL) == BASE_OK &&
                pattern.step_count == 1 && !pattern.timeout));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dev_pattern pattern;
    struct base_error error = {0};
    struct base_str text = {(const char *)data, size};
    enum base_status status = dev_pattern_parse(text, &pattern, &error);
    if (status != BASE_OK) {
        base_check(status == BASE_ERR_INVALID || status == BASE_ERR_TOO_LARGE);
        base_check(error.status == status);
        base_check(error.line >= 1);
        base_check(error.column >= 1);
        base_check(error.column <= size + 1);
        base_check(error.text[0] != '\0');
        return 0;
    }
    opening(text, pattern.timeout);
    char printed[2][DEV_PATTERN_PRINTED_MAX];
    size_t sizes[2];
    base_check(dev_pattern_variants(&pattern) <= DEV_PATTERN_VARIANTS_MAX);
    base_check(dev_pattern_print(&pattern, printed[0], sizeof printed[0], &sizes[0]) == BASE_OK);
    if (sizes[0] > DEV_PATTERN_TEXT_MAX) {
        return 0; // a normal form may be longer than a text may be
    }
    struct base_str normal = {printed[0], sizes[0]};
    base_check(dev_pattern_parse(normal, &pattern, &error) == BASE_OK);
    base_check(dev_pattern_print(&pattern, printed[1], sizeof printed[1], &sizes[1]) == BASE_OK);
    base_check(sizes[0] == sizes[1]);
    base_check(memcmp(printed[0], printed[1], sizes[0]) == 0);
    return 0;
}
