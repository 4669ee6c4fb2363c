// The canonical text of a target. Called by the gateway for its views and for the evidence of a
// simulation (api/api_views.c, svc/rollout/simulation.c), and by the simulator, whose evidence must
// name the same target; pure, any thread. A list of conditions is written as the tests that the
// language has for them, a compiled expression is read again and spaced evenly. Texts are cut
// nowhere: what does not fit, or cannot be spelled, is no text.
#include "policy/target_text.h"

#include "policy/expr.h"
#include "policy/expr_lex.h"

#include <stdio.h>
#include <string.h>

struct text {
    char *out;
    size_t capacity;
    size_t size;
    bool ok;
};

static void add(struct text *text, const char *bytes, size_t size)
{
    if (!text->ok || size >= text->capacity - text->size) {
        text->ok = false;
        return;
    }
    memcpy(text->out + text->size, bytes, size);
    text->size += size;
}

static void add_word(struct text *text, const char *word)
{
    add(text, word, strlen(word));
}

// ---- Conditions

static void add_string(struct text *text, struct pol_text value)
{
    add_word(text, "\"");
    for (uint32_t i = 0; i < value.size; i++) {
        char c = value.data[i];
        const char *escape = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : "\\t";
        if (c == '"' || c == '\\' || c == '\n' || c == '\t') {
            add_word(text, escape);
        } else {
            text->ok = text->ok && (unsigned char)c >= 0x20 && c != 0x7f;
            add(text, &c, 1);
        }
    }
    add_word(text, "\"");
}

static void add_version(struct text *text, const struct pol_semver *version)
{
    char number[24];
    uint32_t count = version->numbers[3] > 0 ? 4 : 3;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(number, sizeof(number), "%s%llu", i > 0 ? "." : "",
                       (unsigned long long)version->numbers[i]);
        add_word(text, number);
    }
    if (version->pre_size > 0) {
        add_word(text, "-");
        add(text, version->pre, version->pre_size);
    }
}

static void add_literal(struct text *text, const struct pol_value *value)
{
    char number[24];
    switch (value->type) {
    case POL_TYPE_STRING:
        add_string(text, value->text);
        break;
    case POL_TYPE_VERSION:
        add_version(text, &value->version);
        break;
    case POL_TYPE_INTEGER:
        (void)snprintf(number, sizeof(number), "%lld", (long long)value->integer);
        add_word(text, number);
        break;
    default:
        add_word(text, value->boolean ? "true" : "false");
        break;
    }
}

static void add_set(struct text *text, const struct pol_cond *cond)
{
    add_word(text, cond->op == POL_OP_IN ? " in [ " : " ! in [ ");
    for (uint32_t i = 0; i < cond->operand_count; i++) {
        add_word(text, i > 0 ? " , " : "");
        add_literal(text, &cond->operands[i]);
    }
    add_word(text, " ]");
}

static void add_cond(struct text *text, const struct pol_cond *cond)
{
    static const char *const signs[] = {
        [POL_OP_EQ] = " == ", [POL_OP_NE] = " != ", [POL_OP_LT] = " < ",
        [POL_OP_LE] = " <= ", [POL_OP_GT] = " > ",  [POL_OP_GE] = " >= "};
    if (cond->op == POL_OP_PRESENT || cond->op == POL_OP_ABSENT) {
        add_word(text, cond->op == POL_OP_PRESENT ? "has ( " : "! has ( ");
        add(text, cond->attr.data, cond->attr.size);
        add_word(text, " )");
        return;
    }
    add(text, cond->attr.data, cond->attr.size);
    if (cond->op == POL_OP_IN || cond->op == POL_OP_NOT_IN) {
        add_set(text, cond);
    } else if (cond->operand_count > 0) {
        add_word(text, signs[cond->op]);
        add_literal(text, &cond->operands[0]);
    }
}

// ---- Expression

static void add_expr(struct text *text, struct pol_text expr)
{
    uint32_t at = 0;
    for (bool first = true;; first = false) {
        struct pol_token token = pol_expr_next(expr, at);
        if (token.kind == POL_TOKEN_END || token.kind == POL_TOKEN_BAD) {
            text->ok = text->ok && token.kind == POL_TOKEN_END;
            return;
        }
        add_word(text, first ? "" : " ");
        add(text, expr.data + token.start, token.end - token.start);
        at = token.end;
    }
}

bool pol_target_text(const struct pol_target *target, char *out, size_t capacity, size_t *out_size)
{
    struct text text = {.out = out, .capacity = capacity, .ok = capacity > 0};
    bool both = target->cond_count > 0 && target->expr != NULL;
    for (uint32_t i = 0; i < target->cond_count; i++) {
        add_word(&text, i > 0 ? " && " : "");
        add_cond(&text, &target->conds[i]);
    }
    if (target->expr != NULL) {
        add_word(&text, both ? " && ( " : "");
        add_expr(&text, pol_expr_text(target->expr));
        add_word(&text, both ? " )" : "");
    }
    if (text.ok) {
        out[text.size] = '\0';
        *out_size = text.size;
    }
    return text.ok;
}
