// Calls of walle.data.upload in a task's scripts: see task_uploads.h. task_build.c calls it, once
// they have compiled, and cli_task_run.c for what a run has uploaded; one thread. The compiler
// tells of imports alone, so the text is read here once more, as words, literals and signs: what
// `walle` and `walle.data` are called in it, then the calls. It warns and refuses nothing: what a
// script uploads may be meant for another version's declaration.
#include "cli/task/task_uploads.h"

#include "cli/base/cli_files.h"
#include "cli/task/task_file.h"

#include "base/text/likeness.h"
#include "base/text/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX  8  // that a script gives the module, of either kind
#define WARNED_MAX 16 // calls of one script

enum token_kind {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_TEXT, // a literal that is what it says
    TOKEN_SIGN, // any other character, or a literal that is not: its first one
};

struct token {
    enum token_kind kind;
    struct base_str text; // of a literal what is between the quotes
    uint32_t line;
};

struct words {
    const char *at;
    const char *end;
    uint32_t line;
    struct token token; // the one that is looked at
};

// What the script calls a module.
struct names {
    struct base_str items[NAMES_MAX];
    uint32_t count;
};

// ---- Words

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is(const struct token *token, const char *text)
{
    return token->kind != TOKEN_TEXT && base_str_equal(token->text, base_str_of(text));
}

// What separates words: ends of lines too, which no call and no list in brackets minds.
static void skip_blank(struct words *words)
{
    while (words->at < words->end) {
        char c = *words->at;
        if (c == '#') {
            while (words->at < words->end && *words->at != '\n') {
                words->at++;
            }
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\') {
            words->line += c == '\n' ? 1 : 0;
            words->at++;
        } else {
            return;
        }
    }
}

// From the opening quote on. One with a backslash in it is not what it says, nor is one that has
// `prefix` before it, but for u and r.
static void take_literal(struct words *words, struct base_str prefix)
{
    char quote = *words->at;
    bool triple = words->end - words->at >= 3 && words->at[1] == quote && words->at[2] == quote;
    size_t width = triple ? 3 : 1;
    bool plain = prefix.size == 0 || (prefix.size == 1 && strchr("rRuU", *prefix.data) != NULL);

    words->at += width;
    const char *start = words->at;
    while (words->at < words->end) {
        char c = *words->at;
        size_t left = (size_t)(words->end - words->at);
        if (c == quote && (!triple || (left >= 3 && words->at[1] == c && words->at[2] == c))) {
            break;
        }
        plain = plain && c != '\\' && c != '\n';
        words->at += c == '\\' && left > 1 ? 1 : 0;
        words->line += *words->at == '\n' ? 1 : 0;
        words->at++;
    }
    words->token.kind = plain ? TOKEN_TEXT : TOKEN_SIGN;
    words->token.text = plain ? (struct base_str){start, (size_t)(words->at - start)}
                              : (struct base_str){&start[-1], 1};
    words->at = (size_t)(words->end - words->at) > width ? words->at + width : words->end;
}

static void next(struct words *words)
{
    skip_blank(words);
    const char *start = words->at;
    words->token = (struct token){.kind = TOKEN_END, .line = words->line};
    if (start == words->end) {
        return;
    }
    while (words->at < words->end && in_word(*words->at)) {
        words->at++;
    }
    struct base_str word = {start, (size_t)(words->at - start)};
    if (word.size <= 2 && words->at < words->end && (*words->at == '"' || *words->at == '\'')) {
        take_literal(words, word);
        return;
    }
    words->token.kind = word.size > 0 ? TOKEN_WORD : TOKEN_SIGN;
    words->at += word.size > 0 ? 0 : 1;
    words->token.text = (struct base_str){start, (size_t)(words->at - start)};
}

// Is it this word or sign? Then the next one is looked at.
static bool take(struct words *words, const char *text)
{
    bool same = is(&words->token, text);
    if (same) {
        next(words);
    }
    return same;
}

static struct words words_of(struct base_str text)
{
    struct words words = {.at = text.data, .end = text.data + text.size, .line = 1};
    next(&words);
    return words;
}

// ---- What the modules are called

static void add_name(struct names *names, struct base_str name)
{
    if (names->count < NAMES_MAX) {
        names->items[names->count++] = name;
    }
}

static bool has_name(const struct names *names, const struct token *token)
{
    for (uint32_t i = 0; i < names->count && token->kind == TOKEN_WORD; i++) {
        if (base_str_equal(names->items[i], token->text)) {
            return true;
        }
    }
    return false;
}

// The list behind "import": `wanted`, or what it is to be called, is added to `names`.
static void take_list(struct words *words, const char *wanted, struct names *names)
{
    (void)take(words, "(");
    do {
        bool found = is(&words->token, wanted);
        struct base_str name = words->token.text;
        if (words->token.kind != TOKEN_WORD) {
            return;
        }
        next(words);
        while (take(words, ".")) { // a module within another one is not the one that is wanted
            found = false;
            next(words);
        }
        if (take(words, "as")) {
            name = words->token.text;
            next(words);
        }
        if (found) {
            add_name(names, name);
        }
    } while (take(words, ","));
}

// "a.b", "..a": takes it; is it "walle" alone?
static bool take_path(struct words *words)
{
    bool ours = is(&words->token, "walle");
    bool dots = false;

    while (take(words, ".")) {
        dots = true;
    }
    next(words);
    while (take(words, ".")) {
        dots = true;
        next(words);
    }
    return ours && !dots;
}

static void find_names(struct base_str text, struct names *modules, struct names *datas)
{
    struct words words = words_of(text);

    while (words.token.kind != TOKEN_END) {
        if (take(&words, "import")) {
            take_list(&words, "walle", modules);
        } else if (!take(&words, "from")) {
            next(&words);
        } else if (take_path(&words)) {
            bool all = take(&words, "import") && is(&words.token, "*");
            if (all) {
                add_name(datas, base_str_of("data"));
            }
            take_list(&words, "data", datas);
        } else {
            (void)take(&words, "import"); // of another module, which may have a name of ours
        }
    }
}

// ---- Calls

// Does walle.data stand here, by any of its names? Then it is taken, with what names it.
static bool take_module(struct words *words, const struct names *modules, const struct names *datas)
{
    if (has_name(datas, &words->token)) {
        next(words);
        return true;
    }
    if (!has_name(modules, &words->token)) {
        return false;
    }
    next(words);
    return take(words, ".") && take(words, "data");
}

static void warn(const char *file, uint32_t line, struct base_str name,
                 const struct base_nearest *nearest, bool any)
{
    fputs("walle: warning: ", stderr);
    if (file != NULL) {
        base_terminal_text(stderr, base_str_of(file));
        fprintf(stderr, ": line %u: ", line);
    }
    fputs("upload '", stderr);
    base_terminal_text(stderr, name);
    fprintf(stderr,
            "' is not declared: \"uploads\" of task.json %s, and a device drops what goes there",
            any ? "does not have it" : "is missing");
    if (nearest->found != NULL) {
        fprintf(stderr, ": did you mean '%s'?", nearest->found);
    }
    fputc('\n', stderr);
}

// Warns when it is not declared.
static bool check_name(const struct task_source *source, const char *file, const struct token *name)
{
    const json_t *uploads = json_object_get(source->document, "uploads");
    struct base_nearest nearest = base_nearest_to(name->text);
    size_t index;
    json_t *upload;

    json_array_foreach((json_t *)(uintptr_t)uploads, index, upload)
    {
        const char *declared = json_string_value(json_object_get(upload, "name"));
        if (declared != NULL && base_str_equal(base_str_of(declared), name->text)) {
            return false;
        }
        if (declared != NULL) {
            base_nearest_offer(&nearest, declared);
        }
    }
    warn(file, name->line, name->text, &nearest, json_array_size(uploads) > 0);
    return true;
}

void task_uploads_warn_script(const struct task_source *source, const char *file,
                              struct base_str text)
{
    struct names modules = {.count = 0};
    struct names datas = {.count = 0};
    uint32_t warned = 0;

    find_names(text, &modules, &datas);
    struct words words = words_of(text);
    while (words.token.kind != TOKEN_END && warned < WARNED_MAX) {
        if (take(&words, ".")) {
            next(&words); // of something else, whatever it is called
            continue;
        }
        const char *before = words.at;
        if (take_module(&words, &modules, &datas) && take(&words, ".") && take(&words, "upload") &&
            take(&words, "(")) {
            struct token name = words.token;
            next(&words);
            bool literal = name.kind == TOKEN_TEXT && is(&words.token, ",");
            warned += literal && check_name(source, file, &name) ? 1 : 0;
        } else if (words.at == before) {
            next(&words);
        }
    }
}

void task_uploads_warn(const struct task_source *source)
{
    for (uint32_t i = 0; i < source->file_count; i++) {
        const struct task_source_file *file = &source->files[i];
        uint8_t *text = NULL;
        size_t size = 0;
        if (file->kind == WIRE_FILE_SCRIPT &&
            cli_file_read(file->path, TASK_BUILD_SOURCE_MAX, &text, &size, NULL) == BASE_OK) {
            task_uploads_warn_script(source, file->name,
                                     (struct base_str){(const char *)text, size});
            free(text);
        }
    }
}

void task_uploads_warn_of(const struct wire_declaration *declaration, struct base_str name)
{
    const struct base_nearest nobody = {.found = NULL};

    if (wire_declaration_upload(declaration, name) == NULL) {
        warn(NULL, 0, name, &nobody, declaration->upload_count > 0);
    }
}
