// What a result says, as a number: two results are the same when their digests are, whatever order
// a script's dictionary gave its keys. Called when runs of an active version and of its shadow
// ended. Pure, any thread; nesting is bounded by a stack of its own.
#include "core/run/result_digest.h"

#include "base/hash.h"

#include <string.h>

#define DEPTH_MAX  32
#define SEED_TEXT  1u // of a text taken byte by byte
#define SEED_TOKEN 2u
#define SEED_ARRAY 3u
#define SEED_PAIR  4u
#define SEED_CLOSE 5u

struct level {
    uint64_t hash;
    uint64_t key;
    bool object;
    bool has_key; // a key waits for its value
};

struct digest {
    struct level levels[DEPTH_MAX];
    uint32_t depth;
    uint64_t whole;
    bool done; // the value on the outside is complete
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// End of the token that begins at `at`; 0: it has none.
static size_t token_end(struct base_str json, size_t at)
{
    if (json.data[at] != '"') {
        size_t end = at;
        while (end < json.size && !is_space(json.data[end]) &&
               strchr(",:[]{}\"", json.data[end]) == NULL) {
            end++;
        }
        return end > at ? end : 0;
    }
    for (size_t end = at + 1; end < json.size; end++) {
        if (json.data[end] == '\\') {
            end++;
        } else if (json.data[end] == '"') {
            return end + 1;
        }
    }
    return 0;
}

// A value is complete. False: there may be none here.
static bool value_add(struct digest *digest, uint64_t value, bool string)
{
    if (digest->depth == 0) {
        bool first = !digest->done;
        digest->whole = value;
        digest->done = true;
        return first;
    }
    struct level *level = &digest->levels[digest->depth - 1];
    if (!level->object) {
        const uint64_t both[2] = {level->hash, value};
        level->hash = base_hash64_seed(both, sizeof(both), SEED_ARRAY);
    } else if (!level->has_key) {
        level->key = value;
        level->has_key = true;
        return string;
    } else {
        const uint64_t both[2] = {level->key, value};
        level->hash += base_hash64_seed(both, sizeof(both), SEED_PAIR); // in any order
        level->has_key = false;
    }
    return true;
}

static bool level_open(struct digest *digest, bool object)
{
    if (digest->depth == DEPTH_MAX) {
        return false;
    }
    digest->levels[digest->depth++] = (struct level){.object = object};
    return true;
}

static bool level_close(struct digest *digest, bool object)
{
    if (digest->depth == 0) {
        return false;
    }
    const struct level *level = &digest->levels[--digest->depth];
    if (level->object != object || level->has_key) {
        return false;
    }
    const uint64_t both[2] = {level->hash, object};
    return value_add(digest, base_hash64_seed(both, sizeof(both), SEED_CLOSE), false);
}

static bool walk(struct digest *digest, struct base_str json)
{
    for (size_t at = 0; at < json.size;) {
        char c = json.data[at];
        bool ok = true;
        size_t end = at + 1;
        if (c == '{' || c == '[') {
            ok = level_open(digest, c == '{');
        } else if (c == '}' || c == ']') {
            ok = level_close(digest, c == '}');
        } else if (c == ',' || c == ':') {
            ok = digest->depth > 0;
        } else if (!is_space(c)) {
            end = token_end(json, at);
            ok =
                end > at &&
                value_add(digest, base_hash64_seed(json.data + at, end - at, SEED_TOKEN), c == '"');
        }
        if (!ok) {
            return false;
        }
        at = end;
    }
    return digest->done && digest->depth == 0;
}

uint64_t dev_result_digest(struct base_str json)
{
    struct digest digest = {.depth = 0};
    return walk(&digest, json) ? digest.whole : base_hash64_seed(json.data, json.size, SEED_TEXT);
}
