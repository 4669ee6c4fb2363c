// Fields and their words. Any thread; nothing is kept.
//
// Called by the two that check documents, api/api_json.c in the gateway and
// cli/stages/check_place.c in the command, and by those who read stages. Words are asked of the
// functions that name an enumeration, so they are written down once.
#include "policy/fields/field.h"

#include "policy/rollout.h"
#include "policy/stat/assert.h"

#include <math.h>
#include <string.h>

static double kept_per_one(enum pol_unit unit)
{
    switch (unit) {
    case POL_UNIT_ONE:
    case POL_UNIT_SECOND:
        return 1;
    case POL_UNIT_SECOND_US:
    case POL_UNIT_SHARE:
        return 1e6;
    case POL_UNIT_PERCENT:
    case POL_UNIT_TIMES:
        return 100;
    case POL_UNIT_COUNT:
        break;
    }
    return 1;
}

uint64_t pol_field_kept(const struct pol_field *field, double value)
{
    return value == POL_FIELD_BY_REST ? POL_FIELD_UNSAID
                                      : (uint64_t)llround(value * kept_per_one(field->unit));
}

void pol_field_names(const struct pol_field *fields, unsigned count, const char **out_names)
{
    for (unsigned i = 0; i < count; i++) {
        pol_assert(fields[i].name != NULL);
        out_names[i] = fields[i].name;
    }
    out_names[count] = NULL;
}

// ---- Words

static const char *op_word(unsigned place)
{
    static const char *const words[POL_OP_COUNT] = {
        [POL_OP_EQ] = "==",         [POL_OP_NE] = "!=",         [POL_OP_LT] = "<",
        [POL_OP_LE] = "<=",         [POL_OP_GT] = ">",          [POL_OP_GE] = ">=",
        [POL_OP_IN] = "in",         [POL_OP_NOT_IN] = "not_in", [POL_OP_PRESENT] = "present",
        [POL_OP_ABSENT] = "absent",
    };

    return place < POL_OP_COUNT ? words[place] : NULL;
}

static const char *type_word(unsigned place)
{
    static const char *const words[POL_TYPE_COUNT] = {
        [POL_TYPE_STRING] = "string",
        [POL_TYPE_INTEGER] = "integer",
        [POL_TYPE_VERSION] = "version",
        [POL_TYPE_BOOLEAN] = "boolean",
    };

    return place < POL_TYPE_COUNT ? words[place] : NULL;
}

static const char *of_two(unsigned place, const char *first, const char *second)
{
    return place == 0 ? first : place == 1 ? second : NULL;
}

const char *pol_words_at(enum pol_words words, unsigned place)
{
    pol_assert((unsigned)words < POL_WORDS_COUNT);
    switch (words) {
    case POL_WORDS_STAGE_KIND:
        return place < POL_STAGE_KIND_COUNT ? pol_stage_kind_name((enum pol_stage_kind)place)
                                            : NULL;
    case POL_WORDS_GATE_RULE:
        return place < POL_GATE_RULE_COUNT ? pol_gate_rule_name((enum pol_gate_rule)place) : NULL;
    case POL_WORDS_ON_FAIL:
        return place < POL_ON_FAIL_COUNT ? pol_on_fail_name((enum pol_on_fail)place) : NULL;
    case POL_WORDS_ON_PASS:
        return place < POL_ON_PASS_COUNT ? pol_on_pass_name((enum pol_on_pass)place) : NULL;
    case POL_WORDS_PACE_OF:
        return of_two(place, "offered", "succeeded");
    case POL_WORDS_CLOCK:
        return of_two(place, "utc", "device");
    case POL_WORDS_OP:
        return op_word(place);
    case POL_WORDS_TYPE:
        return type_word(place);
    case POL_WORDS_NONE:
    case POL_WORDS_COUNT:
        break;
    }
    return NULL;
}

bool pol_words_find(enum pol_words words, const char *text, size_t size, unsigned *out_place)
{
    const char *word;

    for (unsigned place = 0; (word = pol_words_at(words, place)) != NULL; place++) {
        if (strlen(word) == size && memcmp(word, text, size) == 0) {
            *out_place = place;
            return true;
        }
    }
    return false;
}

const char *pol_words_refusal(enum pol_words words)
{
    pol_assert((unsigned)words < POL_WORDS_COUNT);
    switch (words) {
    case POL_WORDS_STAGE_KIND:
        return "is none of simulate shadow beta gray full";
    case POL_WORDS_GATE_RULE:
        return "is neither threshold, sequential nor logrank";
    case POL_WORDS_ON_FAIL:
        return "is neither roll_back nor hold";
    case POL_WORDS_ON_PASS:
        return "is neither advance nor pause";
    case POL_WORDS_PACE_OF:
        return "neither offered nor succeeded";
    case POL_WORDS_CLOCK:
        return "neither utc nor device";
    case POL_WORDS_OP:
        return "is none of == != < <= > >= in not_in present absent";
    case POL_WORDS_TYPE:
        return "is none of string integer version boolean";
    case POL_WORDS_NONE:
    case POL_WORDS_COUNT:
        break;
    }
    return "is no word";
}
