// The compiler of the targeting language: text to program. Called by the gateway when a rollout is
// created or loaded, and by whoever checks a text.
//
// Two runs of one parser: the first counts, the second, over a copy of the text inside the caller's
// block, writes. Precedence is kept on an explicit stack of waiting operators, so depth is a number
// that is checked. Types are checked where the literals are read.
#include "policy/expr_program.h"

#include "policy/expr_lex.h"
#include "policy/glob.h"
#include "policy/stat/assert.h"

#include <string.h>

#define WAITING_MAX (3 * (POL_EXPR_DEPTH_MAX + 1))

enum waiting_kind {
    WAITING_OPEN,
    WAITING_NOT,
    WAITING_OR, // the order of these two is their precedence
    WAITING_AND,
};

struct waiting {
    enum waiting_kind kind;
    uint32_t offset;
    uint32_t skip; // AND, OR: the instruction to patch
};

struct parser {
    struct pol_text text;
    struct pol_token token; // the next one
    struct pol_expr *out;   // counts in the first run, arrays too in the second
    bool writing;
    struct waiting waiting[WAITING_MAX];
    uint32_t waiting_count;
    uint32_t depth;
    uint32_t error_at;
    const char *error;
};

static bool fail(struct parser *parser, uint32_t at, const char *message)
{
    parser->error_at = at;
    parser->error = message;
    return false;
}

// The scanner's own complaint goes before what the parser expected.
static bool unexpected(struct parser *parser, const char *message)
{
    bool bad = parser->token.kind == POL_TOKEN_BAD;
    return fail(parser, parser->token.start, bad ? parser->token.message : message);
}

static void advance(struct parser *parser)
{
    parser->token = pol_expr_next(parser->text, parser->token.end);
}

// ---- Writing

static uint32_t emit(struct parser *parser, enum pol_code_kind kind, uint32_t arg)
{
    pol_assert(arg <= UINT16_MAX);
    uint32_t index = parser->out->code_count++;
    if (parser->writing) {
        parser->out->code[index] = (struct pol_code){(uint16_t)kind, (uint16_t)arg};
    }
    return index;
}

static struct pol_text plain_text(struct parser *parser, const struct pol_token *token)
{
    if (!token->escaped) {
        return (struct pol_text){parser->text.data + token->start + 1,
                                 token->end - token->start - 2};
    }
    struct pol_expr *out = parser->out;
    uint32_t start = out->plain_size;
    out->plain_size += token->end - token->start;
    if (!parser->writing) {
        return (struct pol_text){NULL, 0};
    }
    char *plain = out->plain + start;
    return (struct pol_text){plain, pol_expr_unescape(parser->text, token, plain)};
}

static bool emit_literal(struct parser *parser, const struct pol_token *token)
{
    struct pol_value value = {.type = POL_TYPE_BOOLEAN, .boolean = token->kind == POL_TOKEN_TRUE};
    if (parser->out->literal_count == POL_EXPR_LITERALS_MAX) {
        return fail(parser, token->start, "more than 1024 literals");
    }
    if (token->kind == POL_TOKEN_STRING) {
        value.type = POL_TYPE_STRING;
        value.text = plain_text(parser, token);
    } else if (token->kind == POL_TOKEN_INTEGER) {
        value.type = POL_TYPE_INTEGER;
        value.integer = token->integer;
    } else if (token->kind == POL_TOKEN_VERSION) {
        value.type = POL_TYPE_VERSION;
        value.version = token->version;
    }
    uint32_t index = parser->out->literal_count++;
    if (parser->writing) {
        parser->out->literals[index] = value;
    }
    return true;
}

// ---- Literals

static bool is_literal(enum pol_token_kind kind)
{
    return kind == POL_TOKEN_STRING || kind == POL_TOKEN_INTEGER || kind == POL_TOKEN_VERSION ||
           kind == POL_TOKEN_TRUE || kind == POL_TOKEN_FALSE;
}

static bool is_ordered(enum pol_token_kind kind)
{
    return kind == POL_TOKEN_INTEGER || kind == POL_TOKEN_VERSION;
}

static bool same_type(enum pol_token_kind a, enum pol_token_kind b)
{
    bool a_boolean = a == POL_TOKEN_TRUE || a == POL_TOKEN_FALSE;
    bool b_boolean = b == POL_TOKEN_TRUE || b == POL_TOKEN_FALSE;
    return a == b || (a_boolean && b_boolean);
}

static bool take_literal(struct parser *parser, const char *expected, struct pol_token *out)
{
    if (!is_literal(parser->token.kind)) {
        return unexpected(parser, expected);
    }
    *out = parser->token;
    advance(parser);
    return emit_literal(parser, out);
}

static bool parse_set(struct parser *parser)
{
    pol_assert(parser->token.kind == POL_TOKEN_SET_OPEN);
    struct pol_token first;
    advance(parser);
    if (!take_literal(parser, "expected a literal: a set is not empty", &first)) {
        return false;
    }
    while (parser->token.kind == POL_TOKEN_COMMA) {
        struct pol_token next;
        advance(parser);
        if (!take_literal(parser, "expected a literal after ','", &next)) {
            return false;
        }
        if (!same_type(first.kind, next.kind)) {
            return fail(parser, next.start, "the literals of a set have one type");
        }
    }
    if (parser->token.kind != POL_TOKEN_SET_CLOSE) {
        return unexpected(parser, "expected ',' or ']'");
    }
    advance(parser);
    return true;
}

static bool parse_range(struct parser *parser)
{
    uint32_t first = parser->out->literal_count;
    struct pol_token low;
    struct pol_token high;
    if (!take_literal(parser, "expected a set or a range after 'in'", &low)) {
        return false;
    }
    if (parser->token.kind != POL_TOKEN_RANGE) {
        return unexpected(parser, "expected '..'");
    }
    if (!is_ordered(low.kind)) {
        return fail(parser, low.start, "only integers and versions have an order");
    }
    advance(parser);
    if (!take_literal(parser, "expected a literal after '..'", &high)) {
        return false;
    }
    if (low.kind != high.kind) {
        return fail(parser, high.start, "the ends of a range have one type");
    }
    pol_assert(parser->out->literal_count == first + 2); // the two that a test of it reads
    bool ordered = low.kind == POL_TOKEN_INTEGER
                       ? low.integer <= high.integer
                       : pol_semver_compare(&low.version, &high.version) <= 0;
    return ordered || fail(parser, low.start, "the ends of a range are in the wrong order");
}

static bool parse_glob(struct parser *parser)
{
    struct pol_token pattern = parser->token;
    if (pattern.kind != POL_TOKEN_STRING) {
        return unexpected(parser, "expected a text after '~'");
    }
    advance(parser);
    if (pattern.end - pattern.start > 2 * POL_GLOB_BYTES_MAX + 2) {
        return fail(parser, pattern.start, "a glob has at most 256 bytes");
    }
    char plain[2 * POL_GLOB_BYTES_MAX + 2];
    uint32_t size = pol_expr_unescape(parser->text, &pattern, plain);
    uint32_t at;
    const char *message;
    if (!pol_glob_check(plain, size, &at, &message)) {
        return fail(parser, pattern.start + (pattern.escaped ? 0 : at + 1), message);
    }
    return emit_literal(parser, &pattern);
}

// ---- Tests

struct comparison {
    enum pol_token_kind token;
    enum pol_test_op op;
    const char *expected;
};

static const struct comparison *comparison_of(enum pol_token_kind kind)
{
    static const struct comparison comparisons[] = {
        {POL_TOKEN_EQ, POL_TEST_EQ, "expected a literal after '=='"},
        {POL_TOKEN_NE, POL_TEST_NE, "expected a literal after '!='"},
        {POL_TOKEN_LT, POL_TEST_LT, "expected a literal after '<'"},
        {POL_TOKEN_LE, POL_TEST_LE, "expected a literal after '<='"},
        {POL_TOKEN_GT, POL_TEST_GT, "expected a literal after '>'"},
        {POL_TOKEN_GE, POL_TEST_GE, "expected a literal after '>='"},
    };
    for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++) {
        if (comparisons[i].token == kind) {
            return &comparisons[i];
        }
    }
    return NULL;
}

static bool parse_comparison(struct parser *parser, const struct comparison *comparison,
                             struct pol_test *test)
{
    struct pol_token literal;
    advance(parser);
    test->op = (uint8_t)comparison->op;
    if (!take_literal(parser, comparison->expected, &literal)) {
        return false;
    }
    bool equality = comparison->op == POL_TEST_EQ || comparison->op == POL_TEST_NE;
    if (!equality && !is_ordered(literal.kind)) {
        return fail(parser, literal.start, "only integers and versions have an order");
    }
    return true;
}

static bool parse_membership(struct parser *parser, bool negated, struct pol_test *test)
{
    advance(parser);
    if (parser->token.kind == POL_TOKEN_SET_OPEN) {
        test->op = negated ? POL_TEST_NOT_IN : POL_TEST_IN;
        return parse_set(parser);
    }
    test->op = negated ? POL_TEST_NOT_RANGE : POL_TEST_RANGE;
    return parse_range(parser);
}

// What follows the attribute's name. Nothing that belongs to a test: the attribute is true.
static bool parse_predicate(struct parser *parser, struct pol_test *test)
{
    pol_assert(test->literal == parser->out->literal_count); // its own come next
    const struct comparison *comparison = comparison_of(parser->token.kind);
    if (comparison != NULL) {
        return parse_comparison(parser, comparison, test);
    }
    switch (parser->token.kind) {
    case POL_TOKEN_IN:
        return parse_membership(parser, false, test);
    case POL_TOKEN_NOT:
        advance(parser);
        if (parser->token.kind != POL_TOKEN_IN) {
            return unexpected(parser, "expected 'in' after '!'");
        }
        return parse_membership(parser, true, test);
    case POL_TOKEN_LIKE:
    case POL_TOKEN_NOT_LIKE:
        test->op = parser->token.kind == POL_TOKEN_LIKE ? POL_TEST_LIKE : POL_TEST_NOT_LIKE;
        advance(parser);
        return parse_glob(parser);
    default:
        test->op = POL_TEST_EQ;
        return emit_literal(
            parser, &(struct pol_token){.kind = POL_TOKEN_TRUE, .start = parser->token.start});
    }
}

static bool parse_has(struct parser *parser, struct pol_test *test)
{
    advance(parser);
    if (parser->token.kind != POL_TOKEN_NAME) {
        return unexpected(parser, "expected an attribute after 'has('");
    }
    test->op = POL_TEST_HAS;
    test->attr = (struct pol_text){parser->text.data + parser->token.start,
                                   parser->token.end - parser->token.start};
    advance(parser);
    if (parser->token.kind != POL_TOKEN_CLOSE) {
        return unexpected(parser, "expected ')' after the attribute");
    }
    advance(parser);
    return true;
}

// The end of the last token before the one at hand: the test's text has no space behind it.
static uint32_t end_before(const struct parser *parser, uint32_t start)
{
    uint32_t end = parser->token.start;
    while (end > start + 1 && strchr(" \t\r\n", parser->text.data[end - 1]) != NULL) {
        end--;
    }
    return end;
}

static bool parse_test(struct parser *parser)
{
    pol_assert(parser->token.kind == POL_TOKEN_NAME);
    struct pol_token name = parser->token;
    struct pol_expr *out = parser->out;
    struct pol_test test = {
        .attr = {parser->text.data + name.start, name.end - name.start},
        .literal = out->literal_count,
    };
    if (out->test_count == POL_EXPR_TESTS_MAX) {
        return fail(parser, name.start, "more than 256 tests");
    }
    advance(parser);
    bool has = test.attr.size == 3 && memcmp(test.attr.data, "has", 3) == 0 &&
               parser->token.kind == POL_TOKEN_OPEN;
    if (!(has ? parse_has(parser, &test) : parse_predicate(parser, &test))) {
        return false;
    }
    test.literal_count = (uint16_t)(out->literal_count - test.literal);
    test.text = (struct pol_text){parser->text.data + name.start,
                                  end_before(parser, name.start) - name.start};
    if (parser->writing) {
        out->tests[out->test_count] = test;
    }
    emit(parser, POL_CODE_TEST, out->test_count++);
    return true;
}

// ---- Operators

static bool wait(struct parser *parser, enum waiting_kind kind)
{
    bool nests = kind == WAITING_OPEN || kind == WAITING_NOT;
    if (nests && ++parser->depth > POL_EXPR_DEPTH_MAX) {
        return fail(parser, parser->token.start, "more than 32 levels of '(' and '!'");
    }
    struct waiting waiting = {.kind = kind, .offset = parser->token.start};
    if (kind == WAITING_AND) {
        waiting.skip = emit(parser, POL_CODE_AND_SKIP, 0);
    } else if (kind == WAITING_OR) {
        waiting.skip = emit(parser, POL_CODE_OR_SKIP, 0);
    }
    pol_assert(parser->waiting_count < WAITING_MAX); // POL_EXPR_DEPTH_MAX sees to it
    parser->waiting[parser->waiting_count++] = waiting;
    advance(parser);
    return true;
}

// Finishes the waiting `&&` and `||` that bind at least as strongly as `kind`.
static void reduce(struct parser *parser, enum waiting_kind kind)
{
    while (parser->waiting_count > 0) {
        const struct waiting *top = &parser->waiting[parser->waiting_count - 1];
        if (top->kind < kind) {
            return;
        }
        emit(parser, top->kind == WAITING_AND ? POL_CODE_AND : POL_CODE_OR, 0);
        if (parser->writing) {
            parser->out->code[top->skip].arg = (uint16_t)parser->out->code_count;
        }
        parser->waiting_count--;
    }
}

// An operand is complete: the `!` before it apply, two of them to nothing.
static void negate(struct parser *parser)
{
    bool odd = false;
    while (parser->waiting_count > 0 &&
           parser->waiting[parser->waiting_count - 1].kind == WAITING_NOT) {
        odd = !odd;
        pol_assert(parser->depth > 0);
        parser->waiting_count--;
        parser->depth--;
    }
    if (odd) {
        emit(parser, POL_CODE_NOT, 0);
    }
}

// `!` and `(`, then a test.
static bool parse_operand(struct parser *parser)
{
    while (parser->token.kind == POL_TOKEN_NOT || parser->token.kind == POL_TOKEN_OPEN) {
        bool negation = parser->token.kind == POL_TOKEN_NOT;
        if (!wait(parser, negation ? WAITING_NOT : WAITING_OPEN)) {
            return false;
        }
    }
    if (parser->token.kind != POL_TOKEN_NAME) {
        return unexpected(parser, "expected an attribute, '!' or '('");
    }
    if (!parse_test(parser)) {
        return false;
    }
    negate(parser);
    return true;
}

static bool parse_close(struct parser *parser)
{
    reduce(parser, WAITING_OR);
    if (parser->waiting_count == 0) {
        return fail(parser, parser->token.start, "')' without '('");
    }
    pol_assert(parser->waiting[parser->waiting_count - 1].kind == WAITING_OPEN);
    pol_assert(parser->depth > 0);
    parser->waiting_count--;
    parser->depth--;
    negate(parser);
    advance(parser);
    return true;
}

static bool parse_operator(struct parser *parser)
{
    switch (parser->token.kind) {
    case POL_TOKEN_AND:
        reduce(parser, WAITING_AND);
        return wait(parser, WAITING_AND);
    case POL_TOKEN_OR:
        reduce(parser, WAITING_OR);
        return wait(parser, WAITING_OR);
    default:
        return unexpected(parser, "expected '&&', '||' or the end");
    }
}

static bool parse(struct parser *parser)
{
    parser->token = pol_expr_next(parser->text, 0);
    for (;;) {
        if (!parse_operand(parser)) {
            return false;
        }
        while (parser->token.kind == POL_TOKEN_CLOSE) {
            if (!parse_close(parser)) {
                return false;
            }
        }
        if (parser->token.kind == POL_TOKEN_END) {
            break;
        }
        if (!parse_operator(parser)) {
            return false;
        }
    }
    reduce(parser, WAITING_OR);
    if (parser->waiting_count > 0) {
        uint32_t open = parser->waiting[parser->waiting_count - 1].offset;
        return fail(parser, open, "'(' is never closed");
    }
    pol_assert(parser->depth == 0); // with nothing that waits
    return true;
}

// ---- The block

static void say_where(struct pol_text text, uint32_t offset, const char *message,
                      struct pol_expr_error *error)
{
    *error = (struct pol_expr_error){.offset = offset, .line = 1, .column = 1, .message = message};
    for (uint32_t at = 0; at < offset && at < text.size; at++) {
        if (text.data[at] == '\n') {
            error->line++;
            error->column = 1;
        } else if (((unsigned char)text.data[at] & 0xc0) != 0x80) {
            error->column++;
        }
    }
}

static size_t aligned(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

// Points the arrays into the block behind the head; counts are those of the first run.
static void lay_out(struct pol_expr *expr, void *memory)
{
    char *at = (char *)memory + aligned(sizeof(*expr));
    expr->literals = (void *)at;
    at += expr->literal_count * sizeof(struct pol_value);
    expr->tests = (void *)at;
    at += expr->test_count * sizeof(struct pol_test);
    expr->code = (void *)at;
    at += aligned(expr->code_count * sizeof(struct pol_code));
    expr->text = at;
    at += expr->text_size;
    expr->plain = at;
}
_Static_assert(sizeof(struct pol_value) % 8 == 0 && sizeof(struct pol_test) % 8 == 0,
               "the arrays of a block follow one another");

static size_t size_of(const struct pol_expr *expr)
{
    return aligned(sizeof(*expr)) + expr->literal_count * sizeof(struct pol_value) +
           expr->test_count * sizeof(struct pol_test) +
           aligned(expr->code_count * sizeof(struct pol_code)) +
           aligned((size_t)expr->text_size + expr->plain_size);
}

static const struct pol_expr *write_program(struct pol_text text, const struct pol_expr *counted,
                                            size_t bytes, void *memory)
{
    struct pol_expr *expr = memory;
    *expr = *counted;
    expr->bytes = (uint32_t)bytes;
    lay_out(expr, memory);
    memcpy(expr->text, text.data, text.size);
    expr->literal_count = 0;
    expr->test_count = 0;
    expr->code_count = 0;
    expr->plain_size = 0;
    struct parser parser = {.text = {expr->text, text.size}, .out = expr, .writing = true};
    bool again = parse(&parser);
    pol_assert(again); // the same text was accepted before
    (void)again;
    pol_assert(expr->code_count == counted->code_count);
    pol_assert(expr->literal_count == counted->literal_count);
    pol_assert(expr->plain_size == counted->plain_size);
    return expr;
}

bool pol_expr_compile(struct pol_text text, struct pol_expr_space space,
                      const struct pol_expr **out_expr, size_t *out_bytes,
                      struct pol_expr_error *error)
{
    if (text.size > POL_EXPR_TEXT_MAX) {
        say_where(text, POL_EXPR_TEXT_MAX, "an expression has at most 4096 bytes", error);
        return false;
    }
    struct pol_expr counted = {.text_size = text.size};
    struct parser parser = {.text = text, .out = &counted};
    if (!parse(&parser)) {
        say_where(text, parser.error_at, parser.error, error);
        return false;
    }
    size_t bytes = size_of(&counted);
    pol_assert(bytes <= POL_EXPR_BYTES_MAX);
    pol_assert((uintptr_t)space.memory % 8 == 0);
    if (space.capacity == 0) {
        *out_bytes = bytes;
        *out_expr = NULL;
        return true;
    }
    if (bytes > space.capacity) {
        say_where(text, 0, "the program does not fit the memory given", error);
        return false;
    }
    *out_expr = write_program(text, &counted, bytes, space.memory);
    *out_bytes = bytes;
    return true;
}
