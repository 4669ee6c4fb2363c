// The tables of a stage's fields: what each row has, so that those who go by it may rely on it, and
// what is kept of numbers and words.
#include "test_kit.h"

#include "policy/rollout.h"
#include "policy/fields/stage_fields.h"

#include <string.h>

static const struct {
    const char *what;
    const struct pol_field *fields;
    unsigned count;
} tables[] = {
    {"stage", pol_stage_fields, POL_STAGE_FIELD_COUNT},
    {"rate", pol_rate_fields, POL_RATE_FIELD_COUNT},
    {"window", pol_window_fields, POL_WINDOW_FIELD_COUNT},
    {"tolerance", pol_tolerance_fields, POL_TOLERANCE_FIELD_COUNT},
    {"condition", pol_cond_fields, POL_COND_FIELD_COUNT},
};

static void check_range(const char *what, const struct pol_field *field)
{
    bool number = field->kind == POL_FIELD_REAL || field->kind == POL_FIELD_WHOLE;
    bool by_rest = field->fallback == POL_FIELD_BY_REST;

    if (number && (field->min > field->max || field->max <= 0 ||
                   (field->kind == POL_FIELD_WHOLE && field->min != 0))) {
        fail_msg("%s.%s: from %g to %g", what, field->name, field->min, field->max);
    }
    if (number && !field->required && !by_rest &&
        (field->fallback < field->min || field->fallback > field->max)) {
        fail_msg("%s.%s: %g stands in, from %g to %g", what, field->name, field->fallback,
                 field->min, field->max);
    }
    if ((field->kind == POL_FIELD_WORD) != (field->words != POL_WORDS_NONE)) {
        fail_msg("%s.%s: words of a field that has none, or none of one that has", what,
                 field->name);
    }
    if (field->kind == POL_FIELD_WORD &&
        pol_words_at(field->words, (unsigned)field->fallback) == NULL) {
        fail_msg("%s.%s: no word stands in", what, field->name);
    }
}

static void every_row_is_whole(void **state)
{
    (void)state;
    for (size_t t = 0; t < TEST_COUNT(tables); t++) {
        for (unsigned i = 0; i < tables[t].count; i++) {
            const struct pol_field *field = &tables[t].fields[i];
            if (field->name == NULL) {
                fail_msg("%s: row %u is empty", tables[t].what, i);
            }
            for (unsigned k = 0; k < i; k++) {
                assert_string_not_equal(field->name, tables[t].fields[k].name);
            }
            check_range(tables[t].what, field);
        }
    }
}

static void every_word_is_found_and_none_else(void **state)
{
    (void)state;
    for (unsigned words = POL_WORDS_NONE + 1; words < POL_WORDS_COUNT; words++) {
        unsigned place = 0;
        unsigned found = 99;
        const char *word;
        while ((word = pol_words_at((enum pol_words)words, place)) != NULL) {
            assert_true(pol_words_find((enum pol_words)words, word, strlen(word), &found));
            assert_int_equal(found, place);
            assert_non_null(strstr(pol_words_refusal((enum pol_words)words), word));
            place++;
        }
        assert_true(place >= 2);
        assert_false(pol_words_find((enum pol_words)words, "", 0, &found));
        assert_false(pol_words_find((enum pol_words)words, "unknown", 7, &found));
        assert_int_equal(found, place - 1); // as it was
    }
    assert_null(pol_words_at(POL_WORDS_NONE, 0));
}

static void what_is_kept(void **state)
{
    (void)state;
    static const struct {
        enum pol_stage_field field;
        double said;
        uint64_t kept;
    } rows[] = {
        {POL_STAGE_FIELD_PERCENT, 0.01, 1},
        {POL_STAGE_FIELD_PERCENT, 100, 10000},
        {POL_STAGE_FIELD_ALPHA, 0.05, POL_GATE_ALPHA_PPM},
        {POL_STAGE_FIELD_MAX_RISE, 1, POL_TEST_NOT_ASKED},
        {POL_STAGE_FIELD_MIN_DWELL, 0.5, 500000},
        {POL_STAGE_FIELD_NO_DATA, 3600, UINT64_C(3600000000)},
        {POL_STAGE_FIELD_MAX_SLOWDOWN, 1.5, 150},
        {POL_STAGE_FIELD_GUARD, 86400, 86400},
        {POL_STAGE_FIELD_GUARD, POL_FIELD_BY_REST, POL_FIELD_UNSAID},
        {POL_STAGE_FIELD_IN_FLIGHT, UINT32_MAX, UINT32_MAX},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(pol_field_kept(&pol_stage_fields[rows[i].field], rows[i].said),
                         rows[i].kept);
    }
}

static void names_end(void **state)
{
    (void)state;
    const char *names[POL_STAGE_FIELD_COUNT + 1];

    pol_field_names(pol_stage_fields, POL_STAGE_FIELD_STATEMENT, names);
    assert_string_equal(names[0], "name");
    assert_null(names[POL_STAGE_FIELD_STATEMENT]); // what is sent alone stands last
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(every_word_is_found_and_none_else),
        cmocka_unit_test(what_is_kept),
        cmocka_unit_test(names_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
