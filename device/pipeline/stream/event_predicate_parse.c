// Compiles the text of an expression: tokens, an operator-precedence parser with its own bounded
// stacks, and postfix code for event_predicate.c. Called when a stream is declared (event_stream.c)
// and when a script makes one (vm/vm_stream.c), on any thread; pure.
//
// No recursion: depth is bounded by the stacks, code by the caller's buffer. Types that cannot fit
// are refused here, as far as they are known before there is an event. The first error counts and
// has the place in the text.
#include "pipeline/stream/event_predicate.h"

#include "pipeline/stream/event_predicate_code.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

#define REAL_DIGITS_MAX   15 // so that mantissa and power of ten are exact and one rounding is left
#define REAL_EXPONENT_MAX 22

enum token_kind {
    TOKEN_END, // also of the expression: something else follows
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_OPERATOR, // binary; `op` says which
    TOKEN_NOT,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_SET_OPEN,
    TOKEN_SET_CLOSE,
    TOKEN_COMMA,
    TOKEN_BAD, // an error was set
};

struct token {
    enum token_kind kind;
    uint32_t start;
    uint32_t end;
    enum predicate_op op;
    int64_t integer;
    double real;
};

// What is known of a value before there is an event.
enum static_type { TYPE_ANY, TYPE_NUMBER, TYPE_TEXT, TYPE_TRUTH };

enum precedence {
    LEVEL_OPEN, // a parenthesis: nothing goes past it
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_COMPARE,
    LEVEL_SUM,
    LEVEL_PRODUCT,
    LEVEL_UNARY,
};

struct waiting {
    uint8_t op;    // enum predicate_op; of a parenthesis nothing
    uint8_t level; // enum precedence
    uint16_t skip; // AND, OR: where the target of the skip is to be written
    uint32_t offset;
};

struct parser {
    struct base_str text;
    uint32_t at;
    uint32_t flags;
    struct base_writer out;
    struct base_error *error;
    enum base_status status;
    uint32_t waiting_count;
    uint32_t type_count;
    struct waiting waiting[DEV_PREDICATE_DEPTH_MAX];
    enum static_type types[PREDICATE_STACK_MAX];
};

// The first error counts.
static void fail_at(struct parser *parser, enum base_status status, uint32_t offset,
                    const char *what)
{
    base_assert(status != BASE_OK);
    if (parser->status != BASE_OK) {
        return;
    }
    parser->status = status;
    if (parser->error == NULL) {
        return;
    }
    (void)base_error_set(parser->error, status, "%s", what);
    parser->error->line = 1;
    parser->error->column = 1;
    for (uint32_t i = 0; i < offset && i < parser->text.size; i++) {
        uint8_t byte = (uint8_t)parser->text.data[i];
        if (byte == '\n') {
            parser->error->line++;
            parser->error->column = 1;
        } else if ((byte & 0xC0) != 0x80) {
            parser->error->column++;
        }
    }
}

static struct token bad(struct parser *parser, uint32_t offset, const char *what)
{
    fail_at(parser, BASE_ERR_INVALID, offset, what);
    return (struct token){.kind = TOKEN_BAD, .start = offset, .end = offset};
}

// --- tokens

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_name(char c)
{
    return is_name_start(c) || is_digit(c) || c == '_' || c == '.';
}

static char peek(const struct parser *parser, uint32_t at)
{
    return at < parser->text.size ? parser->text.data[at] : '\0';
}

static void space_skip(struct parser *parser)
{
    while (parser->at < parser->text.size) {
        char c = parser->text.data[parser->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
        parser->at++;
    }
}

static double power_of_ten(uint32_t exponent)
{
    double power = 1;
    for (uint32_t i = 0; i < exponent; i++) {
        power *= 10; // exact up to 10^22
    }
    return power;
}

// Digits [ "." digits ] [ "e" [sign] digits ]; an integer when it has neither.
static struct token number_read(struct parser *parser)
{
    struct token token = {.kind = TOKEN_INTEGER, .start = parser->at};
    uint32_t at = parser->at;
    bool negative = peek(parser, at) == '-';
    at += negative;
    base_assert(is_digit(peek(parser, at)));
    uint32_t digits_start = at;
    uint64_t mantissa = 0;
    uint32_t digits = 0;
    int32_t exponent = 0;
    bool point = false;
    for (;; at++) {
        char c = peek(parser, at);
        if (c == '.' && !point && is_digit(peek(parser, at + 1))) {
            point = true;
            token.kind = TOKEN_REAL;
            continue;
        }
        if (!is_digit(c)) {
            break;
        }
        digits += mantissa > 0 || c != '0';
        mantissa = digits <= REAL_DIGITS_MAX ? mantissa * 10 + (uint64_t)(c - '0') : mantissa;
        exponent -= point;
    }
    token.end = at;
    if (peek(parser, at) == 'e') {
        token.kind = TOKEN_REAL;
        bool minus = peek(parser, at + 1) == '-';
        at += minus || peek(parser, at + 1) == '+' ? 2 : 1;
        int32_t written = 0;
        if (!is_digit(peek(parser, at))) {
            return bad(parser, token.start, "a number's exponent has no digits");
        }
        for (; is_digit(peek(parser, at)); at++) {
            written = written < 1000 ? written * 10 + (peek(parser, at) - '0') : written;
        }
        exponent += minus ? -written : written;
    }
    if (is_name(peek(parser, at))) {
        return bad(parser, token.start, "a number is followed by a letter, a digit or a dot");
    }
    if (token.kind == TOKEN_INTEGER) {
        struct base_str text = {parser->text.data + digits_start - negative,
                                token.end - digits_start + negative};
        if (base_str_i64(text, &token.integer) != BASE_OK) {
            return bad(parser, token.start, "an integer does not fit into 64 bits");
        }
    } else if (digits > REAL_DIGITS_MAX) {
        return bad(parser, token.start, "a real number has more than 15 digits");
    } else if (mantissa != 0 && (exponent > REAL_EXPONENT_MAX || exponent < -REAL_EXPONENT_MAX)) {
        return bad(parser, token.start, "a real number's exponent is beyond 22");
    } else if (mantissa != 0) {
        double power = power_of_ten((uint32_t)(exponent < 0 ? -exponent : exponent));
        token.real = exponent < 0 ? (double)mantissa / power : (double)mantissa * power;
        token.real = negative ? -token.real : token.real;
    }
    token.end = at;
    return token;
}

static struct token text_read(struct parser *parser)
{
    struct token token = {.kind = TOKEN_TEXT, .start = parser->at};
    char quote = peek(parser, parser->at);
    base_assert(quote == '"' || quote == '\'');
    for (uint32_t at = parser->at + 1; at < parser->text.size; at++) {
        char c = parser->text.data[at];
        if (c == quote) {
            token.end = at + 1;
            return token;
        }
        if ((uint8_t)c < 0x20) {
            return bad(parser, at, "a control character inside a text");
        }
        if (c == '\\') {
            at++;
            char escaped = peek(parser, at);
            if (escaped == '\0' || strchr("\"'\\nt", escaped) == NULL) {
                return bad(parser, at - 1, "an escape is one of \\\" \\' \\\\ \\n \\t");
            }
        }
    }
    return bad(parser, token.start, "a text is not closed");
}

static struct token operator_of(uint32_t start, uint32_t size, enum predicate_op op)
{
    return (struct token){.kind = TOKEN_OPERATOR, .start = start, .end = start + size, .op = op};
}

static struct token sign_read(const struct parser *parser)
{
    base_assert(parser->at < parser->text.size);
    static const struct {
        char text[3];
        enum predicate_op op;
    } operators[] = {
        {"==", PREDICATE_EQUAL},         {"!=", PREDICATE_NOT_EQUAL}, {"<=", PREDICATE_LESS_EQUAL},
        {">=", PREDICATE_GREATER_EQUAL}, {"&&", PREDICATE_AND},       {"||", PREDICATE_OR},
        {"<", PREDICATE_LESS},           {">", PREDICATE_GREATER},    {"+", PREDICATE_ADD},
        {"-", PREDICATE_SUBTRACT},       {"*", PREDICATE_MULTIPLY},   {"/", PREDICATE_DIVIDE},
        {"%", PREDICATE_REMAINDER},
    };
    static const struct {
        char sign;
        enum token_kind kind;
    } signs[] = {{'(', TOKEN_OPEN},      {')', TOKEN_CLOSE}, {'{', TOKEN_SET_OPEN},
                 {'}', TOKEN_SET_CLOSE}, {',', TOKEN_COMMA}, {'!', TOKEN_NOT}};
    uint32_t at = parser->at;
    struct base_str rest = {parser->text.data + at, parser->text.size - at};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        struct base_str text = base_str_of(operators[i].text);
        if (base_str_starts(rest, text)) {
            return operator_of(at, (uint32_t)text.size, operators[i].op);
        }
    }
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (rest.data[0] == signs[i].sign) {
            return (struct token){.kind = signs[i].kind, .start = at, .end = at + 1};
        }
    }
    return (struct token){.kind = TOKEN_END, .start = at, .end = at};
}

// The token at parser->at, which stays. `value`: a "-" before a digit is part of the number.
static struct token token_peek(struct parser *parser, bool value)
{
    space_skip(parser);
    uint32_t at = parser->at;
    base_assert(at <= parser->text.size);
    char c = peek(parser, at);
    if (at >= parser->text.size) {
        return (struct token){.kind = TOKEN_END, .start = at, .end = at};
    }
    if (is_digit(c) || (value && c == '-' && is_digit(peek(parser, at + 1)))) {
        return number_read(parser);
    }
    if (c == '"' || c == '\'') {
        return text_read(parser);
    }
    if (is_name_start(c) || (c == '.' && is_name_start(peek(parser, at + 1)))) {
        uint32_t end = at + 1;
        while (is_name(peek(parser, end))) {
            end++;
        }
        return (struct token){.kind = TOKEN_NAME, .start = at, .end = end};
    }
    return sign_read(parser);
}

static struct base_str token_text(const struct parser *parser, const struct token *token)
{
    return (struct base_str){parser->text.data + token->start, token->end - token->start};
}

// --- code

static void emit(struct parser *parser, unsigned op)
{
    base_writer_u8(&parser->out, (uint8_t)op);
}

static void type_push(struct parser *parser, enum static_type type)
{
    base_check(parser->type_count < PREDICATE_STACK_MAX);
    parser->types[parser->type_count++] = type;
}

static bool may_be(enum static_type type, enum static_type wanted)
{
    return type == TYPE_ANY || type == wanted;
}

static void emit_text(struct parser *parser, const struct token *token)
{
    base_assert(token->kind == TOKEN_TEXT && token->end >= token->start + 2);
    char plain[DEV_PREDICATE_LITERAL_MAX];
    uint8_t size = 0;
    for (uint32_t at = token->start + 1; at + 1 < token->end; at++) {
        char c = parser->text.data[at];
        if (c == '\\') {
            c = parser->text.data[++at];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        if (size == sizeof(plain)) {
            fail_at(parser, BASE_ERR_TOO_LARGE, token->start, "a text has more than 128 bytes");
            return;
        }
        plain[size++] = c;
    }
    emit(parser, PREDICATE_TEXT);
    base_writer_u8(&parser->out, size);
    base_writer_bytes(&parser->out, plain, size);
}

// A literal's code and type; false: the token is none.
static bool literal_emit(struct parser *parser, const struct token *token, enum static_type *type)
{
    base_assert(token->start <= token->end && token->end <= parser->text.size);
    struct base_str text = token_text(parser, token);
    bool is_true = token->kind == TOKEN_NAME && base_str_equal(text, BASE_STR("true"));
    bool is_false = token->kind == TOKEN_NAME && base_str_equal(text, BASE_STR("false"));
    if (is_true || is_false) {
        emit(parser, is_true ? PREDICATE_TRUE : PREDICATE_FALSE);
        *type = TYPE_TRUTH;
    } else if (token->kind == TOKEN_INTEGER) {
        emit(parser, PREDICATE_INTEGER);
        base_writer_u64(&parser->out, (uint64_t)token->integer);
        *type = TYPE_NUMBER;
    } else if (token->kind == TOKEN_REAL) {
        emit(parser, PREDICATE_REAL);
        uint64_t bits;
        memcpy(&bits, &token->real, sizeof(bits));
        base_writer_u64(&parser->out, bits);
        *type = TYPE_NUMBER;
    } else if (token->kind == TOKEN_TEXT) {
        emit_text(parser, token);
        *type = TYPE_TEXT;
    } else {
        return false;
    }
    return true;
}

static enum predicate_field field_of(struct base_str name)
{
    static const char *const names[PREDICATE_FIELD_COUNT] = {
        [PREDICATE_FIELD_KIND] = "kind",   [PREDICATE_FIELD_NAME] = "name",
        [PREDICATE_FIELD_PAGE] = "page",   [PREDICATE_FIELD_ITEM] = "item",
        [PREDICATE_FIELD_VISIT] = "visit", [PREDICATE_FIELD_INSTANCE] = "instance",
        [PREDICATE_FIELD_SEQ] = "seq",     [PREDICATE_FIELD_TIME] = "time",
    };
    for (unsigned i = 0; i < PREDICATE_FIELD_COUNT; i++) {
        if (base_str_equal(name, base_str_of(names[i]))) {
            return (enum predicate_field)i;
        }
    }
    return PREDICATE_FIELD_COUNT;
}

// A field or attribute, or whether there is one. Returns its static type.
static enum static_type name_emit(struct parser *parser, const struct token *token, bool has)
{
    base_assert(token->kind == TOKEN_NAME && token->start < token->end);
    struct base_str name = token_text(parser, token);
    unsigned other = 0;
    if (base_str_starts(name, BASE_STR("other.")) && name.size > 6) {
        other = PREDICATE_OTHER;
        name = (struct base_str){name.data + 6, name.size - 6};
        if ((parser->flags & DEV_PREDICATE_OTHER) == 0) {
            fail_at(parser, BASE_ERR_INVALID, token->start, "there is no other event here");
        }
    }
    enum predicate_field field = field_of(name);
    if (field != PREDICATE_FIELD_COUNT) {
        emit(parser, (has ? PREDICATE_HAS_FIELD : PREDICATE_FIELD) | other);
        base_writer_u8(&parser->out, (uint8_t)field);
        return field <= PREDICATE_FIELD_ITEM ? TYPE_TEXT : TYPE_NUMBER;
    }
    if (name.data[0] == '.') {
        name = (struct base_str){name.data + 1, name.size - 1};
    }
    if (name.size == 0 || !is_name_start(name.data[0])) {
        fail_at(parser, BASE_ERR_INVALID, token->start, "a name begins with a letter");
        return TYPE_ANY;
    }
    if (name.size > DEV_EVENT_NAME_MAX) {
        fail_at(parser, BASE_ERR_TOO_LARGE, token->start, "a name has more than 32 bytes");
        return TYPE_ANY;
    }
    emit(parser, (has ? PREDICATE_HAS_ATTR : PREDICATE_ATTR) | other);
    base_writer_u8(&parser->out, (uint8_t)name.size);
    base_writer_bytes(&parser->out, name.data, name.size);
    return TYPE_ANY;
}

// --- operators

static enum precedence level_of(enum predicate_op op)
{
    switch (op) {
    case PREDICATE_OR:
        return LEVEL_OR;
    case PREDICATE_AND:
        return LEVEL_AND;
    case PREDICATE_ADD:
    case PREDICATE_SUBTRACT:
        return LEVEL_SUM;
    case PREDICATE_MULTIPLY:
    case PREDICATE_DIVIDE:
    case PREDICATE_REMAINDER:
        return LEVEL_PRODUCT;
    case PREDICATE_NOT:
    case PREDICATE_NEGATE:
        return LEVEL_UNARY;
    default:
        return LEVEL_COMPARE;
    }
}

static void waiting_push(struct parser *parser, enum predicate_op op, enum precedence level,
                         uint32_t offset)
{
    if (parser->waiting_count == DEV_PREDICATE_DEPTH_MAX) {
        fail_at(parser, BASE_ERR_TOO_LARGE, offset, "nested deeper than 16 operators");
        return;
    }
    parser->waiting[parser->waiting_count++] =
        (struct waiting){.op = (uint8_t)op, .level = (uint8_t)level, .offset = offset};
}

// The code and type of the operator on top, whose right side is complete.
static void reduce(struct parser *parser)
{
    base_assert(parser->waiting_count > 0 && parser->type_count > 0);
    struct waiting top = parser->waiting[--parser->waiting_count];
    enum static_type right = parser->types[parser->type_count - 1];
    enum static_type left = right;
    if (top.level != LEVEL_UNARY) {
        base_assert(parser->type_count >= 2);
        parser->type_count--;
        left = parser->types[parser->type_count - 1];
    }
    bool equality = top.op == PREDICATE_EQUAL || top.op == PREDICATE_NOT_EQUAL;
    bool truths = top.op == PREDICATE_AND || top.op == PREDICATE_OR || top.op == PREDICATE_NOT;
    enum static_type needs = truths ? TYPE_TRUTH : TYPE_NUMBER;
    if (equality && left != right && left != TYPE_ANY && right != TYPE_ANY) {
        fail_at(parser, BASE_ERR_INVALID, top.offset, "two types that are never equal");
    } else if (!equality && (!may_be(left, needs) || !may_be(right, needs))) {
        fail_at(parser, BASE_ERR_INVALID, top.offset,
                truths ? "this operator is for conditions" : "this operator is for numbers");
    }
    emit(parser, top.op);
    if (top.skip != 0 && parser->out.status == BASE_OK) {
        size_t target = base_writer_size(&parser->out);
        parser->out.start[top.skip] = (uint8_t)target;
        parser->out.start[top.skip + 1] = (uint8_t)(target >> 8);
    }
    bool number = top.op < PREDICATE_EQUAL && top.op != PREDICATE_NOT;
    parser->types[parser->type_count - 1] = number ? TYPE_NUMBER : TYPE_TRUTH;
}

static void reduce_down_to(struct parser *parser, enum precedence level)
{
    while (parser->status == BASE_OK && parser->waiting_count > 0 &&
           parser->waiting[parser->waiting_count - 1].level >= level) {
        reduce(parser);
    }
}

static void binary_take(struct parser *parser, const struct token *token)
{
    base_assert(token->kind == TOKEN_OPERATOR);
    enum precedence level = level_of(token->op);
    reduce_down_to(parser, level == LEVEL_COMPARE ? LEVEL_SUM : level);
    if (level == LEVEL_COMPARE && parser->waiting_count > 0 &&
        parser->waiting[parser->waiting_count - 1].level == LEVEL_COMPARE) {
        fail_at(parser, BASE_ERR_INVALID, token->start, "comparisons do not chain: use &&");
        return;
    }
    waiting_push(parser, token->op, level, token->start);
    if (parser->status == BASE_OK && (token->op == PREDICATE_AND || token->op == PREDICATE_OR)) {
        emit(parser, token->op == PREDICATE_AND ? PREDICATE_AND_SKIP : PREDICATE_OR_SKIP);
        parser->waiting[parser->waiting_count - 1].skip = (uint16_t)base_writer_size(&parser->out);
        base_writer_u16(&parser->out, 0);
    }
    parser->at = token->end;
}

// "in { literals }", parser->at behind the "in".
static void set_take(struct parser *parser, bool negated)
{
    base_assert(parser->type_count > 0);
    reduce_down_to(parser, LEVEL_SUM);
    struct token token = token_peek(parser, true);
    if (token.kind != TOKEN_SET_OPEN) {
        fail_at(parser, BASE_ERR_INVALID, token.start, "expected '{' after 'in'");
        return;
    }
    emit(parser, PREDICATE_IN);
    size_t count_at = base_writer_size(&parser->out);
    base_writer_u8(&parser->out, 0);
    enum static_type first = parser->types[parser->type_count - 1];
    uint32_t count = 0;
    do {
        enum static_type type = TYPE_ANY;
        parser->at = token.end; // behind "{" or ","
        token = token_peek(parser, true);
        if (!literal_emit(parser, &token, &type)) {
            fail_at(parser, BASE_ERR_INVALID, token.start, "expected a literal");
        } else if (!may_be(first, type)) {
            fail_at(parser, BASE_ERR_INVALID, token.start, "a literal of another type");
        } else if (++count > DEV_PREDICATE_SET_MAX) {
            fail_at(parser, BASE_ERR_TOO_LARGE, token.start, "a set has more than 32 literals");
        }
        first = type;
        parser->at = token.end;
        token = token_peek(parser, false);
    } while (parser->status == BASE_OK && token.kind == TOKEN_COMMA);
    if (token.kind != TOKEN_SET_CLOSE) {
        fail_at(parser, BASE_ERR_INVALID, token.start, "expected ',' or '}'");
    }
    if (parser->status != BASE_OK || parser->out.status != BASE_OK) {
        return;
    }
    parser->out.start[count_at] = (uint8_t)count;
    parser->at = token.end;
    parser->types[parser->type_count - 1] = TYPE_TRUTH;
    if (negated) {
        emit(parser, PREDICATE_NOT);
    }
}

// "has" "(" name ")", parser->at behind "has".
static void has_take(struct parser *parser)
{
    base_assert(parser->at >= 3 && memcmp(parser->text.data + parser->at - 3, "has", 3) == 0);
    struct token open = token_peek(parser, false);
    if (open.kind != TOKEN_OPEN) {
        fail_at(parser, BASE_ERR_INVALID, open.start, "expected '(' after 'has'");
        return;
    }
    parser->at = open.end;
    struct token name = token_peek(parser, false);
    if (name.kind != TOKEN_NAME) {
        fail_at(parser, BASE_ERR_INVALID, name.start, "expected a name");
        return;
    }
    (void)name_emit(parser, &name, true);
    type_push(parser, TYPE_TRUTH);
    parser->at = name.end;
    struct token close = token_peek(parser, false);
    if (close.kind != TOKEN_CLOSE) {
        fail_at(parser, BASE_ERR_INVALID, close.start, "expected ')'");
        return;
    }
    parser->at = close.end;
}

// One token where a value must begin. True: the value is complete.
static bool operand_take(struct parser *parser)
{
    struct token token = token_peek(parser, true);
    enum static_type type = TYPE_ANY;
    bool minus = token.kind == TOKEN_OPERATOR && token.op == PREDICATE_SUBTRACT;
    if (token.kind == TOKEN_OPEN || token.kind == TOKEN_NOT || minus) {
        waiting_push(parser, minus ? PREDICATE_NEGATE : PREDICATE_NOT,
                     token.kind == TOKEN_OPEN ? LEVEL_OPEN : LEVEL_UNARY, token.start);
        parser->at = token.end;
        return false;
    }
    parser->at = token.end;
    if (literal_emit(parser, &token, &type)) {
        type_push(parser, type);
    } else if (token.kind != TOKEN_NAME) {
        fail_at(parser, BASE_ERR_INVALID, token.start, "expected a value");
    } else if (base_str_equal(token_text(parser, &token), BASE_STR("has"))) {
        has_take(parser);
    } else if (base_str_equal(token_text(parser, &token), BASE_STR("in"))) {
        fail_at(parser, BASE_ERR_INVALID, token.start, "expected a value before 'in'");
    } else {
        type_push(parser, name_emit(parser, &token, false));
    }
    base_assert(parser->status != BASE_OK || parser->type_count > 0);
    return true;
}

static bool paren_open(const struct parser *parser)
{
    for (uint32_t i = 0; i < parser->waiting_count; i++) {
        if (parser->waiting[i].level == LEVEL_OPEN) {
            return true;
        }
    }
    return false;
}

enum after { AFTER_VALUE, AFTER_OPERATOR, AFTER_END };

// One token behind a complete value.
static enum after operator_take(struct parser *parser)
{
    base_assert(parser->status == BASE_OK && parser->type_count > 0);
    struct token token = token_peek(parser, false);
    bool negated = token.kind == TOKEN_NOT;
    struct token word = token;
    if (negated) {
        uint32_t back = parser->at;
        parser->at = token.end;
        word = token_peek(parser, false);
        parser->at = back;
    }
    if (word.kind == TOKEN_NAME && base_str_equal(token_text(parser, &word), BASE_STR("in"))) {
        parser->at = word.end;
        set_take(parser, negated);
        return AFTER_VALUE;
    }
    if (token.kind == TOKEN_OPERATOR) {
        binary_take(parser, &token);
        return AFTER_OPERATOR;
    }
    if (token.kind == TOKEN_CLOSE && paren_open(parser)) {
        reduce_down_to(parser, LEVEL_OR);
        parser->waiting_count -= parser->status == BASE_OK;
        parser->at = token.end;
        return AFTER_VALUE;
    }
    return AFTER_END;
}

static void expression_take(struct parser *parser)
{
    enum after after = AFTER_OPERATOR;
    while (parser->status == BASE_OK && parser->out.status == BASE_OK && after != AFTER_END) {
        if (after == AFTER_OPERATOR) {
            after = operand_take(parser) ? AFTER_VALUE : AFTER_OPERATOR;
        } else {
            after = operator_take(parser);
        }
    }
    if (parser->out.status != BASE_OK) {
        fail_at(parser, BASE_ERR_TOO_LARGE, parser->at, "the expression is too long");
        return;
    }
    reduce_down_to(parser, LEVEL_OR);
    if (parser->status == BASE_OK && parser->waiting_count > 0) {
        fail_at(parser, BASE_ERR_INVALID, parser->waiting[parser->waiting_count - 1].offset,
                "'(' is not closed");
    }
}

enum base_status dev_predicate_parse(struct base_str text, size_t *at, uint32_t flags,
                                     struct dev_predicate_program *out, struct base_error *error)
{
    struct parser parser = {.text = text, .flags = flags, .error = error};
    if (*at > text.size || text.size > UINT32_MAX / 2) {
        return base_error_set(error, BASE_ERR_INVALID, "no text here");
    }
    parser.at = (uint32_t)*at;
    size_t room = out->capacity < DEV_PREDICATE_BYTES_MAX ? out->capacity : DEV_PREDICATE_BYTES_MAX;
    base_writer_init(&parser.out, out->bytes, room);
    base_writer_u16(&parser.out, 0);
    expression_take(&parser);
    if (parser.status == BASE_OK && parser.out.status != BASE_OK) {
        fail_at(&parser, BASE_ERR_TOO_LARGE, parser.at, "the expression is too long");
    }
    if (parser.status == BASE_OK && parser.at - *at > DEV_PREDICATE_TEXT_MAX) {
        fail_at(&parser, BASE_ERR_TOO_LARGE, (uint32_t)*at,
                "an expression has more than 1024 bytes");
    }
    if (parser.status == BASE_OK && (flags & DEV_PREDICATE_TRUTH) != 0 &&
        !may_be(parser.types[0], TYPE_TRUTH)) {
        fail_at(&parser, BASE_ERR_INVALID, (uint32_t)*at, "this is no condition");
    }
    if (parser.status != BASE_OK) {
        return parser.status;
    }
    base_check(parser.type_count == 1);
    base_assert(parser.waiting_count == 0);
    size_t size = base_writer_size(&parser.out);
    out->bytes[0] = (uint8_t)size;
    out->bytes[1] = (uint8_t)(size >> 8);
    out->size = size;
    *at = parser.at;
    return BASE_OK;
}

enum base_status dev_predicate_compile(struct base_str text, uint32_t flags,
                                       struct dev_predicate_program *out, struct base_error *error)
{
    size_t at = 0;
    struct dev_predicate_program made = *out;
    BASE_TRY(dev_predicate_parse(text, &at, flags, &made, error));
    if (at != text.size) {
        struct parser parser = {.text = text, .error = error};
        fail_at(&parser, BASE_ERR_INVALID, (uint32_t)at, "expected an operator or the end");
        return parser.status;
    }
    *out = made;
    return BASE_OK;
}
