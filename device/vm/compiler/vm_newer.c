// Names of syntax that Python has and MicroPython does not know, for the error of a source that did
// not compile: "invalid syntax" says nothing to somebody whose own Python takes the file. Called by
// vm_compile.c on its thread, once a source has failed. The statement of the error's line is read
// once more with MicroPython's lexer and looked at token by token: a guess that only words the
// error, and refuses nothing.
#include "vm/compiler/vm_newer.h"

#include "py/lexer.h"
#include "py/nlr.h"
#include "py/qstr.h"

#include <stdbool.h>
#include <string.h>

#define TOKENS_MAX 256 // of a statement; what follows is not looked at

struct token {
    mp_token_kind_t kind;
    size_t line;
    char name[8]; // of a NAME; what is longer is cut
};

struct statement {
    struct token tokens[TOKENS_MAX];
    size_t count;
};

static bool is_kind(const struct statement *s, size_t at, mp_token_kind_t kind)
{
    return at < s->count && s->tokens[at].kind == kind;
}

static bool is_word(const struct statement *s, size_t at, const char *word)
{
    return is_kind(s, at, MP_TOKEN_NAME) && strcmp(s->tokens[at].name, word) == 0;
}

static bool is_open(mp_token_kind_t kind)
{
    return kind == MP_TOKEN_DEL_PAREN_OPEN || kind == MP_TOKEN_DEL_BRACKET_OPEN ||
           kind == MP_TOKEN_DEL_BRACE_OPEN;
}

static bool is_close(mp_token_kind_t kind)
{
    return kind == MP_TOKEN_DEL_PAREN_CLOSE || kind == MP_TOKEN_DEL_BRACKET_CLOSE ||
           kind == MP_TOKEN_DEL_BRACE_CLOSE;
}

static bool is_value(mp_token_kind_t kind)
{
    return kind == MP_TOKEN_NAME || kind == MP_TOKEN_INTEGER || kind == MP_TOKEN_FLOAT_OR_IMAG ||
           kind == MP_TOKEN_STRING || kind == MP_TOKEN_BYTES || kind == MP_TOKEN_KW_NONE ||
           kind == MP_TOKEN_KW_TRUE || kind == MP_TOKEN_KW_FALSE;
}

// ---- What there is. Each looks at the whole statement.

static bool is_match(const struct statement *s)
{
    return (is_word(s, 0, "match") || is_word(s, 0, "case")) && s->count > 2 &&
           is_kind(s, s->count - 1, MP_TOKEN_DEL_COLON);
}

static bool is_type_alias(const struct statement *s)
{
    return is_word(s, 0, "type") && is_kind(s, 1, MP_TOKEN_NAME) &&
           (is_kind(s, 2, MP_TOKEN_DEL_EQUAL) || is_kind(s, 2, MP_TOKEN_DEL_BRACKET_OPEN));
}

static bool is_except_group(const struct statement *s)
{
    return is_kind(s, 0, MP_TOKEN_KW_EXCEPT) && is_kind(s, 1, MP_TOKEN_OP_STAR);
}

static bool is_except_bare_list(const struct statement *s)
{
    return is_kind(s, 0, MP_TOKEN_KW_EXCEPT) && is_kind(s, 1, MP_TOKEN_NAME) &&
           is_kind(s, 2, MP_TOKEN_DEL_COMMA);
}

// Where a def begins, behind decorations of it; SIZE_MAX: it is none.
static size_t def_at(const struct statement *s)
{
    size_t at = is_kind(s, 0, MP_TOKEN_KW_ASYNC) ? 1 : 0;
    return is_kind(s, at, MP_TOKEN_KW_DEF) ? at : SIZE_MAX;
}

static bool is_type_parameters(const struct statement *s)
{
    size_t at = def_at(s) != SIZE_MAX ? def_at(s) : 0;
    bool named = is_kind(s, at, MP_TOKEN_KW_DEF) || is_kind(s, at, MP_TOKEN_KW_CLASS);
    return named && is_kind(s, at + 2, MP_TOKEN_DEL_BRACKET_OPEN);
}

// A slash that stands alone between the commas of parameters.
static bool is_slash_parameter(const struct statement *s)
{
    bool lambda = false;
    for (size_t i = 0; i < s->count; i++) {
        lambda = lambda || s->tokens[i].kind == MP_TOKEN_KW_LAMBDA;
        bool alone =
            is_kind(s, i, MP_TOKEN_OP_SLASH) && i > 0 && is_kind(s, i - 1, MP_TOKEN_DEL_COMMA) &&
            (is_kind(s, i + 1, MP_TOKEN_DEL_COMMA) || is_kind(s, i + 1, MP_TOKEN_DEL_COLON) ||
             is_kind(s, i + 1, MP_TOKEN_DEL_PAREN_CLOSE));
        if (alone && (lambda || def_at(s) != SIZE_MAX)) {
            return true;
        }
    }
    return false;
}

static bool is_with_brackets(const struct statement *s)
{
    size_t depth = 0;
    if (!is_kind(s, 0, MP_TOKEN_KW_WITH) || !is_kind(s, 1, MP_TOKEN_DEL_PAREN_OPEN)) {
        return false;
    }
    for (size_t i = 1; i < s->count; i++) {
        depth += is_open(s->tokens[i].kind) ? 1 : 0;
        depth -= is_close(s->tokens[i].kind) && depth > 0 ? 1 : 0;
        if (depth == 1 && s->tokens[i].kind == MP_TOKEN_KW_AS) {
            return true;
        }
    }
    return false;
}

// A star before a part of a list, a tuple, a set or a dict, or of what is returned, yielded or an
// index, as `star` says. Calls may have one: their bracket is behind a value.
static bool has_starred(const struct statement *s, mp_token_kind_t star)
{
    bool calls[TOKENS_MAX + 1] = {false}; // by depth
    size_t depth = 0;
    for (size_t i = 0; i < s->count; i++) {
        mp_token_kind_t kind = s->tokens[i].kind;
        mp_token_kind_t before = i > 0 ? s->tokens[i - 1].kind : MP_TOKEN_NEWLINE;
        if (is_open(kind)) {
            depth++;
            calls[depth] =
                kind == MP_TOKEN_DEL_PAREN_OPEN && (is_value(before) || is_close(before));
        }
        depth -= is_close(kind) && depth > 0 ? 1 : 0;
        bool begins = is_open(before) || before == MP_TOKEN_DEL_COMMA ||
                      before == MP_TOKEN_DEL_EQUAL || before == MP_TOKEN_KW_RETURN ||
                      before == MP_TOKEN_KW_YIELD || before == MP_TOKEN_KW_IN;
        if (kind == star && begins && !calls[depth]) {
            return true;
        }
    }
    return false;
}

static bool is_star_display(const struct statement *s)
{
    return has_starred(s, MP_TOKEN_OP_STAR);
}

static bool is_dict_display(const struct statement *s)
{
    return has_starred(s, MP_TOKEN_OP_DBL_STAR);
}

static bool is_print(const struct statement *s)
{
    for (size_t i = 0; i + 1 < s->count; i++) {
        if ((is_word(s, i, "print") || is_word(s, i, "exec")) && is_value(s->tokens[i + 1].kind)) {
            return true;
        }
    }
    return false;
}

static bool is_async_comprehension(const struct statement *s)
{
    for (size_t i = 1; i < s->count; i++) {
        if (is_kind(s, i, MP_TOKEN_KW_ASYNC) && is_kind(s, i + 1, MP_TOKEN_KW_FOR)) {
            return true;
        }
    }
    return false;
}

static bool is_decorator(const struct statement *s)
{
    return is_kind(s, 0, MP_TOKEN_OP_AT);
}

static bool is_t_string(const struct statement *s)
{
    for (size_t i = 0; i + 1 < s->count; i++) {
        if ((is_word(s, i, "t") || is_word(s, i, "T")) && is_kind(s, i + 1, MP_TOKEN_STRING)) {
            return true;
        }
    }
    return false;
}

static bool is_walrus(const struct statement *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->tokens[i].kind == MP_TOKEN_OP_ASSIGN) {
            return true;
        }
    }
    return false;
}

static const struct {
    bool (*is)(const struct statement *s);
    const char *what;
} newer[] = {
    {is_match, "match statement (Python 3.10): use if and elif"},
    {is_type_alias, "type statement (Python 3.12)"},
    {is_except_group, "except* (Python 3.11)"},
    {is_except_bare_list, "except of several names without brackets: except (A, B)"},
    {is_type_parameters, "type parameters in brackets (Python 3.12)"},
    {is_slash_parameter, "positional-only parameters, a \"/\" among them (Python 3.8)"},
    {is_with_brackets, "brackets around what a with opens (Python 3.10)"},
    {is_print, "print or exec statement (Python 2): print(...) is a function"},
    {is_async_comprehension, "async for in a comprehension (Python 3.6)"},
    {is_t_string, "t-strings (Python 3.14)"},
    {is_decorator, "decorator that is no name, or a call of one (Python 3.9)"},
    {is_dict_display, "** in a dict (Python 3.5): use dict.update"},
    {is_star_display, "* in a list, tuple, set, return or index (Python 3.5): use + or extend"},
    {is_walrus, ":= at this place"},
};

// ---- The statement of a line

static void token_take(struct statement *s, const mp_lexer_t *lexer)
{
    if (s->count == TOKENS_MAX) {
        return;
    }
    struct token *token = &s->tokens[s->count++];
    *token = (struct token){.kind = lexer->tok_kind, .line = lexer->tok_line};
    if (token->kind == MP_TOKEN_NAME) {
        size_t size = lexer->vstr.len < sizeof(token->name) ? lexer->vstr.len : 0;
        memcpy(token->name, lexer->vstr.buf, size);
    }
}

// The statement that ends on that line or goes over it.
static void statement_read(mp_lexer_t *lexer, size_t line, struct statement *out)
{
    out->count = 0;
    while (lexer->tok_kind != MP_TOKEN_END && lexer->tok_line <= line + TOKENS_MAX) {
        mp_token_kind_t kind = lexer->tok_kind;
        bool ends = kind == MP_TOKEN_NEWLINE;
        if (!ends && kind != MP_TOKEN_INDENT && kind != MP_TOKEN_DEDENT) {
            token_take(out, lexer);
        }
        if (ends && out->count > 0 && out->tokens[out->count - 1].line >= line) {
            return;
        }
        out->count = ends ? 0 : out->count;
        if (kind == MP_TOKEN_INVALID || kind == MP_TOKEN_LONELY_STRING_OPEN ||
            kind == MP_TOKEN_MALFORMED_FSTRING) {
            return; // the rest makes no sense
        }
        mp_lexer_to_next(lexer);
    }
}

const char *dev_vm_newer(struct base_str source, size_t line)
{
    struct statement statement;
    nlr_buf_t nlr;
    if (nlr_push(&nlr) != 0) {
        return NULL;
    }
    mp_lexer_t *lexer = mp_lexer_new_from_str_len(MP_QSTR_, source.data, source.size, 0);
    statement_read(lexer, line, &statement);
    nlr_pop();
    for (size_t i = 0; statement.count > 0 && i < sizeof(newer) / sizeof(newer[0]); i++) {
        if (newer[i].is(&statement)) {
            return newer[i].what;
        }
    }
    return NULL;
}
