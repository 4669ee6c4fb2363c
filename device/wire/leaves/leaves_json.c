// Walks a record of JSON once and holds every value against the declared fields. Called by
// leaves_check.c, in the task's process and again on the device's loop; pure.
//
// What is not expressly declared does not leave, and so neither do other ways to say something in a
// record: names of members (a path must be declared as it is written, escapes included), a member
// said twice, be it a field or on the way to one, white space, digits beyond what a number needs,
// nesting beyond the declared paths.
#include "wire/leaves/leaves_json.h"

#include "base/check.h"

#include <string.h>

struct level {
    bool object;
    bool first;         // nothing has been read in it
    size_t path_size;   // of its own path
    uint32_t items;     // of a list, so far
    uint32_t items_max; // likewise
};

struct walk {
    const struct wire_leaves_field *fields;
    uint32_t field_count;
    struct base_str text;
    size_t at;
    struct base_str what;
    struct base_error *error;
    // Of every field: which beginnings of its path were there in this record, or in this item, a
    // bit for so many parts. Beginnings that fields share are marked at the first of them.
    uint16_t seen[WIRE_LEAVES_FIELDS_MAX];
    size_t path_size;
    char path[WIRE_LEAVES_PATH_MAX + 1];
    uint32_t depth;
    struct level levels[WIRE_LEAVES_DEPTH_MAX + 1];
};

static char next(const struct walk *walk)
{
    return walk->at < walk->text.size ? walk->text.data[walk->at] : '\0';
}

static enum base_status malformed(struct walk *walk)
{
    return base_error_set(walk->error, BASE_ERR_DENIED,
                          "%.*s: byte %zu: not JSON as it is written on a device",
                          (int)walk->what.size, walk->what.data, walk->at);
}

static enum base_status undeclared(struct walk *walk)
{
    return base_error_set(walk->error, BASE_ERR_DENIED, "%.*s: %s'%.*s' is not in \"leaves\"",
                          (int)walk->what.size, walk->what.data,
                          walk->path_size > 0 ? "field " : "the value itself, ",
                          (int)walk->path_size, walk->path);
}

static enum base_status over(struct walk *walk, const char *has, uint64_t is, uint64_t may)
{
    return base_error_set(walk->error, BASE_ERR_DENIED,
                          "%.*s: field '%.*s' has %llu %s, and %llu may leave",
                          (int)walk->what.size, walk->what.data, (int)walk->path_size, walk->path,
                          (unsigned long long)is, has, (unsigned long long)may);
}

static struct base_str path_of(const struct walk *walk)
{
    return (struct base_str){walk->path, walk->path_size};
}

// Is the place of `field` `path`, or one below it?
static bool below(const struct wire_leaves_field *field, struct base_str path)
{
    if (field->path.size < path.size || memcmp(field->path.data, path.data, path.size) != 0) {
        return false;
    }
    return path.size == 0 || field->path.size == path.size || field->path.data[path.size] == '.' ||
           field->path.data[path.size] == '[';
}

// The declared field at the path, of that kind; a number may be an integer.
static const struct wire_leaves_field *field_find(const struct walk *walk,
                                                  enum wire_leaves_kind kind)
{
    for (uint32_t i = 0; i < walk->field_count; i++) {
        const struct wire_leaves_field *field = &walk->fields[i];
        bool fits = field->kind == kind ||
                    (kind == WIRE_LEAVES_INTEGER && field->kind == WIRE_LEAVES_NUMBER);
        if (fits && base_str_equal(field->path, path_of(walk))) {
            return field;
        }
    }
    return NULL;
}

// The value is not what is declared at its path, or nothing is.
static enum base_status unfit(struct walk *walk)
{
    static const char *const kinds[WIRE_LEAVES_KIND_END] = {
        [WIRE_LEAVES_BOOLEAN] = "boolean", [WIRE_LEAVES_INTEGER] = "integer",
        [WIRE_LEAVES_NUMBER] = "number",   [WIRE_LEAVES_TEXT] = "string",
        [WIRE_LEAVES_LIST] = "list",
    };
    const char *declared = NULL;
    base_assert(walk->path_size <= WIRE_LEAVES_PATH_MAX);
    for (uint32_t i = 0; i < walk->field_count; i++) {
        const struct wire_leaves_field *field = &walk->fields[i];
        if (base_str_equal(field->path, path_of(walk))) {
            declared = kinds[field->kind];
            break;
        }
        declared = below(field, path_of(walk)) ? "object" : declared; // on the way to a field
    }
    if (declared == NULL) {
        return undeclared(walk);
    }
    return base_error_set(
        walk->error, BASE_ERR_DENIED, "%.*s: %s%.*s%s is no %s", (int)walk->what.size,
        walk->what.data, walk->path_size > 0 ? "field '" : "the value itself", (int)walk->path_size,
        walk->path, walk->path_size > 0 ? "'" : "", declared);
}

// False: it was there already, be it a field or an object or list on the way to one.
static bool seen_once(struct walk *walk)
{
    uint16_t bit = (uint16_t)(1u << walk->depth);
    base_assert(walk->depth <= WIRE_LEAVES_DEPTH_MAX + 1);
    for (uint32_t i = 0; i < walk->field_count; i++) {
        if (below(&walk->fields[i], path_of(walk))) {
            bool before = (walk->seen[i] & bit) != 0;
            walk->seen[i] |= bit;
            return !before;
        }
    }
    return true; // undeclared, as its value's check says
}

// An item of a list begins: it and what is below it may come again.
static void seen_forget(struct walk *walk)
{
    uint16_t above = (uint16_t)((1u << walk->depth) - 1);
    for (uint32_t i = 0; i < walk->field_count; i++) {
        if (below(&walk->fields[i], path_of(walk))) {
            walk->seen[i] &= above;
        }
    }
}

// ---- Scalars

// Takes the text; *out_size: bytes between its quotes.
static bool text_take(struct walk *walk, size_t *out_size)
{
    size_t from = walk->at + 1;
    for (size_t i = from; i < walk->text.size; i++) {
        unsigned char c = (unsigned char)walk->text.data[i];
        if (c == '"') {
            *out_size = i - from;
            walk->at = i + 1;
            return true;
        }
        if (c < 0x20) {
            return false;
        }
        i += c == '\\' ? 1 : 0;
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool digits_take(struct walk *walk)
{
    size_t from = walk->at;
    while (is_digit(next(walk))) {
        walk->at++;
    }
    return walk->at > from;
}

// Takes the number; *out_integer: it has neither fraction nor exponent.
static bool number_take(struct walk *walk, bool *out_integer)
{
    *out_integer = true;
    base_assert(next(walk) == '-' || is_digit(next(walk)));
    walk->at += next(walk) == '-' ? 1 : 0;
    bool zero = next(walk) == '0';
    walk->at += zero ? 1 : 0;
    if (!zero && !digits_take(walk)) {
        return false;
    }
    if (next(walk) == '.') {
        *out_integer = false;
        walk->at++;
        if (!digits_take(walk)) {
            return false;
        }
    }
    if (next(walk) == 'e' || next(walk) == 'E') {
        *out_integer = false;
        walk->at++;
        walk->at += next(walk) == '-' || next(walk) == '+' ? 1 : 0;
        return digits_take(walk);
    }
    return true;
}

static bool word_take(struct walk *walk, const char *word)
{
    size_t size = strlen(word);
    bool there =
        walk->text.size - walk->at >= size && memcmp(walk->text.data + walk->at, word, size) == 0;
    walk->at += there ? size : 0;
    return there;
}

static enum base_status number_check(struct walk *walk)
{
    bool integer = false;
    size_t from = walk->at;
    if (!number_take(walk, &integer)) {
        return malformed(walk);
    }
    size_t size = walk->at - from;
    size_t max = integer ? WIRE_LEAVES_INTEGER_TEXT : WIRE_LEAVES_NUMBER_TEXT;
    if (field_find(walk, integer ? WIRE_LEAVES_INTEGER : WIRE_LEAVES_NUMBER) == NULL) {
        return unfit(walk);
    }
    return size <= max ? BASE_OK : over(walk, "digits and signs", size, max);
}

static enum base_status text_check(struct walk *walk)
{
    size_t size = 0;
    const struct wire_leaves_field *field = field_find(walk, WIRE_LEAVES_TEXT);
    if (!text_take(walk, &size)) {
        return malformed(walk);
    }
    if (field == NULL) {
        return unfit(walk);
    }
    return size <= field->max ? BASE_OK : over(walk, "bytes", size, field->max);
}

// null: for any declared field, and for an object on the way to one.
static bool leads(const struct walk *walk)
{
    for (uint32_t i = 0; i < walk->field_count; i++) {
        if (below(&walk->fields[i], path_of(walk))) {
            return true;
        }
    }
    return false;
}

// Does a declared field's path lead through an object here? An empty one may not stand in place of
// anything else that is declared; of others the first member is refused.
static bool leads_through(const struct walk *walk)
{
    for (uint32_t i = 0; i < walk->field_count; i++) {
        const struct base_str path = walk->fields[i].path;
        bool member = walk->path_size == 0
                          ? path.size > 0 && path.data[0] != '['
                          : path.size > walk->path_size && path.data[walk->path_size] == '.';
        if (member && below(&walk->fields[i], path_of(walk))) {
            return true;
        }
    }
    return false;
}

static enum base_status scalar_check(struct walk *walk)
{
    char c = next(walk);
    if (c == '"') {
        return text_check(walk);
    }
    if (c == '-' || is_digit(c)) {
        return number_check(walk);
    }
    if (word_take(walk, "null")) {
        return leads(walk) ? BASE_OK : undeclared(walk);
    }
    if (word_take(walk, "true") || word_take(walk, "false")) {
        return field_find(walk, WIRE_LEAVES_BOOLEAN) != NULL ? BASE_OK : unfit(walk);
    }
    return malformed(walk);
}

// ---- Objects and lists

static bool path_add(struct walk *walk, struct base_str part)
{
    if (part.size > WIRE_LEAVES_PATH_MAX - walk->path_size) {
        return false;
    }
    memcpy(walk->path + walk->path_size, part.data, part.size);
    walk->path_size += part.size;
    return true;
}

// A member's name and its colon; the path is the member's then.
static enum base_status member_begin(struct walk *walk, const struct level *level)
{
    size_t size = 0;
    size_t from = walk->at + 1;
    walk->path_size = level->path_size;
    if (next(walk) != '"' || !text_take(walk, &size) || next(walk) != ':') {
        return malformed(walk);
    }
    walk->at++;
    struct base_str name = {walk->text.data + from, size};
    bool named = wire_leaves_part_ok(name) &&
                 (level->path_size == 0 || path_add(walk, BASE_STR("."))) && path_add(walk, name);
    if (!named) { // no such name is ever declared
        return base_error_set(walk->error, BASE_ERR_DENIED,
                              "%.*s: below '%.*s': a member's name is not in \"leaves\"",
                              (int)walk->what.size, walk->what.data, (int)level->path_size,
                              walk->path);
    }
    return BASE_OK; // whether it is declared is seen at its value
}

static enum base_status item_begin(struct walk *walk, struct level *level)
{
    walk->path_size = level->path_size;
    if (++level->items > level->items_max) {
        return over(walk, "items or more", level->items, level->items_max);
    }
    if (!path_add(walk, BASE_STR("[]"))) {
        return undeclared(walk);
    }
    seen_forget(walk);
    return BASE_OK;
}

static enum base_status level_open(struct walk *walk)
{
    bool object = next(walk) == '{';
    const struct wire_leaves_field *list = object ? NULL : field_find(walk, WIRE_LEAVES_LIST);
    if (object ? !leads(walk) : list == NULL) {
        return unfit(walk);
    }
    if (walk->depth > WIRE_LEAVES_DEPTH_MAX) { // no declared path is so deep
        return undeclared(walk);
    }
    walk->levels[walk->depth++] = (struct level){.object = object,
                                                 .first = true,
                                                 .path_size = walk->path_size,
                                                 .items_max = list != NULL ? list->max : 0};
    walk->at++;
    return BASE_OK;
}

// Behind a value, or behind what opened a level: to where the next value begins. *out_more false:
// the record is over.
static enum base_status advance(struct walk *walk, bool *out_more)
{
    base_assert(walk->depth <= WIRE_LEAVES_DEPTH_MAX + 1);
    while (walk->depth > 0) {
        struct level *level = &walk->levels[walk->depth - 1];
        if (next(walk) == (level->object ? '}' : ']')) {
            walk->at++;
            walk->path_size = level->path_size;
            walk->depth--;
            if (level->object && level->first && !leads_through(walk)) {
                return unfit(walk);
            }
            continue;
        }
        if (!level->first) {
            if (next(walk) != ',') {
                return malformed(walk);
            }
            walk->at++;
        }
        level->first = false;
        *out_more = true;
        return level->object ? member_begin(walk, level) : item_begin(walk, level);
    }
    *out_more = false;
    return walk->at == walk->text.size ? BASE_OK : malformed(walk);
}

// A value begins at the path.
static enum base_status value_begin(struct walk *walk)
{
    if (!seen_once(walk)) {
        return base_error_set(walk->error, BASE_ERR_DENIED, "%.*s: field '%.*s' is there twice",
                              (int)walk->what.size, walk->what.data, (int)walk->path_size,
                              walk->path);
    }
    return next(walk) == '{' || next(walk) == '[' ? level_open(walk) : scalar_check(walk);
}

enum base_status wire_leaves_json_check(const struct wire_leaves_field *fields,
                                        uint32_t field_count, struct base_str record,
                                        struct base_str what, struct base_error *error)
{
    struct walk walk = {
        .fields = fields, .field_count = field_count, .text = record, .what = what, .error = error};
    bool more = true;
    base_assert(field_count <= WIRE_LEAVES_FIELDS_MAX);
    while (more) {
        base_assert(walk.path_size <= WIRE_LEAVES_PATH_MAX);
        BASE_TRY(value_begin(&walk));
        BASE_TRY(advance(&walk, &more));
    }
    return BASE_OK;
}
