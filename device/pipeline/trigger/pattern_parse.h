// Between the two halves of the pattern parser: the scanner over the text, and what is collected
// before it is normalised. Nobody else includes this.
#ifndef DEV_PATTERN_PARSE_H
#define DEV_PATTERN_PARSE_H

#include "pipeline/trigger/pattern.h"

struct pattern_scan {
    struct base_str text;
    size_t at;
    struct base_error *error; // may be NULL
};

// Sets the error at byte `at` and returns `status`.
enum base_status pattern_fail(const struct pattern_scan *scan, size_t at, enum base_status status,
                              const char *format, ...) BASE_PRINTF(4, 5);
void pattern_skip_space(struct pattern_scan *scan);
bool pattern_at_end(struct pattern_scan *scan);                     // behind white space
bool pattern_take(struct pattern_scan *scan, struct base_str sign); // exactly these bytes, if next
// A word [A-Za-z0-9_.-/:]+ is next: taken; false leaves the scanner where it was.
bool pattern_word(struct pattern_scan *scan, struct base_str *out);
// The same, without taking it.
bool pattern_peek_word(const struct pattern_scan *scan, struct base_str *out);
// Digits, at most `max`. INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status pattern_number(struct pattern_scan *scan, uint32_t max,
                                               const char *what, uint32_t *out);
// Text between quotes. INVALID.
BASE_NODISCARD enum base_status pattern_quoted(struct pattern_scan *scan, struct base_str *out);
// One literal: kind, arguments, same(item). INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status pattern_literal(struct pattern_scan *scan, struct dev_pattern *out,
                                                struct dev_pattern_literal *literal);

#endif
