// A member of a document that people write: what it is called, what it may hold, and what is kept
// of it. The gateway checks what it is sent by it, and `walle` what it sends; both say what is
// wrong in the same words.
#ifndef POL_FIELD_H
#define POL_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pol_field_kind {
    POL_FIELD_REAL,
    POL_FIELD_WHOLE, // from 0 on
    POL_FIELD_FLAG,
    POL_FIELD_TEXT,
    POL_FIELD_WORD,
    POL_FIELD_NESTED, // an object or a list, with fields of its own
    POL_FIELD_KIND_COUNT
};

// What a number is of, and what is kept of it.
enum pol_unit {
    POL_UNIT_ONE,       // things; kept as it is
    POL_UNIT_SECOND,    // kept as it is
    POL_UNIT_SECOND_US, // seconds, kept in microseconds
    POL_UNIT_SHARE,     // 1 is all; kept in parts per million
    POL_UNIT_PERCENT,   // kept in hundredths: buckets
    POL_UNIT_TIMES,     // 1 is as much; kept in percent
    POL_UNIT_COUNT
};

// The words that may stand in a field, in the order of what they name.
enum pol_words {
    POL_WORDS_NONE,
    POL_WORDS_STAGE_KIND,
    POL_WORDS_GATE_RULE,
    POL_WORDS_ON_FAIL,
    POL_WORDS_ON_PASS,
    POL_WORDS_PACE_OF, // offered, succeeded
    POL_WORDS_CLOCK,   // utc, device
    POL_WORDS_OP,
    POL_WORDS_TYPE,
    POL_WORDS_COUNT
};

// The fallback of a field that means, left out, what the rest of the document says.
#define POL_FIELD_BY_REST (-1.0)
// What is kept of such a field when it is left out.
#define POL_FIELD_UNSAID UINT64_MAX

struct pol_field {
    const char *name;
    enum pol_field_kind kind;
    bool required;
    bool is_filled; // required of what is sent: in a file that `walle` reads an option may fill it
    double min;     // of a number
    double max;     // of a number; of a text or a word: bytes; of a list: items
    enum pol_unit unit;
    enum pol_words words;
    double fallback; // what it is when it is left out: a number, a flag, which of the words
};

// What is kept of a number in the field's range, of its fallback, a flag or the place of a word.
uint64_t pol_field_kept(const struct pol_field *field, double value);
// The names of the fields, and NULL behind them: count + 1 places.
void pol_field_names(const struct pol_field *fields, unsigned count, const char **out_names);

// The word at a place; NULL: there are no more.
const char *pol_words_at(enum pol_words words, unsigned place);
// The place of a word of `size` bytes; false: it is none of them.
bool pol_words_find(enum pol_words words, const char *text, size_t size, unsigned *out_place);
// What is said of another word. "is ..." follows the word in quotes; all else stands alone.
const char *pol_words_refusal(enum pol_words words);

#endif
