// Tokens of the targeting language. Private to policy/expr_*.c.
#ifndef POL_EXPR_LEX_H
#define POL_EXPR_LEX_H

#include "policy/expr.h"

enum pol_token_kind {
    POL_TOKEN_END,
    POL_TOKEN_NAME,
    POL_TOKEN_STRING,
    POL_TOKEN_INTEGER,
    POL_TOKEN_VERSION,
    POL_TOKEN_TRUE,
    POL_TOKEN_FALSE,
    POL_TOKEN_IN,
    POL_TOKEN_OPEN,
    POL_TOKEN_CLOSE,
    POL_TOKEN_SET_OPEN,
    POL_TOKEN_SET_CLOSE,
    POL_TOKEN_COMMA,
    POL_TOKEN_RANGE,
    POL_TOKEN_AND,
    POL_TOKEN_OR,
    POL_TOKEN_NOT,
    POL_TOKEN_EQ,
    POL_TOKEN_NE,
    POL_TOKEN_LT,
    POL_TOKEN_LE,
    POL_TOKEN_GT,
    POL_TOKEN_GE,
    POL_TOKEN_LIKE,
    POL_TOKEN_NOT_LIKE,
    POL_TOKEN_BAD, // see `message`, at `start`
};

struct pol_token {
    enum pol_token_kind kind;
    uint32_t start; // bytes [start, end) of the text
    uint32_t end;
    int64_t integer;           // INTEGER
    struct pol_semver version; // VERSION; its pre-release is borrowed from the text
    bool escaped;              // STRING: has a backslash
    const char *message;       // BAD
};

// The token at or behind `at`, white space skipped.
struct pol_token pol_expr_next(struct pol_text text, uint32_t at);
// The bytes of a STRING token without quotes and escapes, into `out` (at least end - start bytes).
// Returns how many.
uint32_t pol_expr_unescape(struct pol_text text, const struct pol_token *token, char *out);

#endif
