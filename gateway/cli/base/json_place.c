// Finds the line of an object's key in the text it was read from. Called where a file of the user's
// is refused: unknown keys (task_source.c) and limits that a dry run was over (task_dry_run.c). One
// thread; nothing is kept. The library gives members in the order of the text, so an object is
// known by how many begin before it, and the text needs no more than its braces and quotes read.
#include "cli/base/json_place.h"

#include "cli/base/cli_json.h"

#include "base/check.h"
#include "cli/base/cli_files.h"

#include <stdlib.h>
#include <string.h>

// ---- How many objects begin before one

struct level {
    json_t *node;
    void *member; // of an object: the next one
    size_t index; // of a list: likewise
};

static json_t *level_next(struct level *level)
{
    if (json_is_array(level->node)) {
        return json_array_get(level->node, level->index++);
    }
    json_t *value = json_object_iter_value(level->member);
    level->member = json_object_iter_next(level->node, level->member);
    return value;
}

static struct level level_of(json_t *node)
{
    return (struct level){.node = node, .member = json_object_iter(node)};
}

// How many objects of the text begin before `object`; SIZE_MAX: it is not found.
static size_t objects_before(const json_t *root, const json_t *object)
{
    struct level levels[JSON_PLACE_DEPTH_MAX];
    uint32_t depth = 1;
    size_t count = 0;
    if (root == object) {
        return 0;
    }
    levels[0] = level_of((json_t *)(uintptr_t)root);
    count += json_is_object(root) ? 1 : 0;
    while (depth > 0) {
        json_t *value = level_next(&levels[depth - 1]);
        if (value == object) {
            return count;
        }
        if (value == NULL) {
            depth--;
        } else if (json_is_object(value) || json_is_array(value)) {
            if (depth == JSON_PLACE_DEPTH_MAX) {
                return SIZE_MAX;
            }
            count += json_is_object(value) ? 1 : 0;
            levels[depth++] = level_of(value);
        }
    }
    return SIZE_MAX;
}

// ---- The text

struct walk {
    struct base_str text;
    size_t at;
    uint32_t line;
};

// Goes behind the quoted text that begins at walk->at, and gives what is between the quotes.
static struct base_str quoted_take(struct walk *walk)
{
    base_assert(walk->text.data[walk->at] == '"');
    size_t from = ++walk->at;
    while (walk->at < walk->text.size && walk->text.data[walk->at] != '"') {
        walk->at += walk->text.data[walk->at] == '\\' ? 2 : 1;
    }
    size_t to = walk->at < walk->text.size ? walk->at : walk->text.size;
    walk->at = to + 1;
    return (struct base_str){walk->text.data + from, to - from};
}

static bool colon_follows(const struct walk *walk)
{
    size_t at = walk->at;
    while (at < walk->text.size && strchr(" \t\r\n", walk->text.data[at]) != NULL) {
        at++;
    }
    return at < walk->text.size && walk->text.data[at] == ':';
}

// The key among the members of the object whose brace was just gone past.
static uint32_t key_line(struct walk *walk, struct base_str key)
{
    for (uint32_t depth = 1; depth > 0 && walk->at < walk->text.size;) {
        char c = walk->text.data[walk->at];
        if (c == '"') {
            struct base_str found = quoted_take(walk);
            if (depth == 1 && base_str_equal(found, key) && colon_follows(walk)) {
                return walk->line;
            }
            continue;
        }
        depth += c == '{' || c == '[' ? 1 : 0;
        depth -= c == '}' || c == ']' ? 1 : 0;
        walk->line += c == '\n' ? 1 : 0;
        walk->at++;
    }
    return 0;
}

uint32_t json_place_line(struct base_str text, const json_t *root, const json_t *object,
                         const char *key)
{
    struct walk walk = {.text = text, .line = 1};
    size_t before = json_is_object(object) ? objects_before(root, object) : SIZE_MAX;
    while (before != SIZE_MAX && walk.at < text.size) {
        char c = text.data[walk.at];
        if (c == '"') {
            (void)quoted_take(&walk);
            continue;
        }
        walk.line += c == '\n' ? 1 : 0;
        walk.at++;
        if (c == '{' && before-- == 0) {
            return key_line(&walk, base_str_of(key));
        }
    }
    return 0;
}

uint32_t json_place_line_of(const char *path, const json_t *root, const json_t *object,
                            const char *key)
{
    struct base_error error = {.status = BASE_OK};
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (cli_file_read(path, CLI_JSON_FILE_MAX, &bytes, &size, &error) != BASE_OK) {
        return 0;
    }
    uint32_t line =
        json_place_line((struct base_str){(const char *)bytes, size}, root, object, key);
    free(bytes);
    return line;
}
