// Walks the pages of an LMDB file; see the header. Called before an environment is opened, by the
// gateway's store, walle-store and its salvage, and the device's posix port, on the calling thread.
// All numbers of the file are hostile here.
#include "base/os/lmdb_pages.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC            0xBEEFC0DEu
#define DATA_VERSION     1u
#define PAGE_HEAD        16u
#define NODE_HEAD        8u
#define DB_BYTES         48u
#define META_BYTES       (PAGE_HEAD + 136u)
#define PAGE_BYTES_MIN   256u
#define PAGE_BYTES_MAX   32768u
#define KEY_MAX          511u
#define NO_PAGE          UINT64_MAX
#define SLACK_PAGES      (1u << 18) // free pages at the end that were never written
#define FLAG_BRANCH      0x01u
#define FLAG_LEAF        0x02u
#define FLAG_OVERFLOW    0x04u
#define FLAG_META        0x08u
#define FLAG_KINDS       0x7fu // those, and kinds that our files never have
#define NODE_BIG         0x01u
#define NODE_SUB         0x02u
#define DB_INTEGER_KEYS  0x08u
#define DB_FIXED_ADDRESS 0x01u
#define DB_KINDS         0x7fu // reverse keys, duplicates and so on: never ours

enum tree_kind {
    TREE_FREE,   // transaction -> the pages it freed
    TREE_TABLES, // name -> root of a table
    TREE_TABLE,
    TREE_KIND_COUNT
};

struct tree {
    char name[BASE_PAGES_NAME_MAX];
    enum tree_kind kind;
    uint16_t flags;
    uint16_t depth;
    uint64_t branches;
    uint64_t leaves;
    uint64_t overflow;
    uint64_t entries;
    uint64_t root;
};

struct frame {
    const uint8_t *page;
    uint32_t count; // nodes
    uint32_t next;
};

struct walk {
    const uint8_t *map;
    uint64_t size;
    uint32_t page_bytes;
    uint64_t last; // highest page number in use
    uint64_t txn;
    uint8_t *claimed; // a bit a page: reached, or free
    uint8_t *units;   // a byte for two bytes of a page: which nodes lie on
    const struct base_pages_file *file;
    const struct base_pages_visitor *visitor;
    struct base_error *error;
    uint64_t findings;
    bool stop;

    struct tree *tree; // the current one; what is counted of it, and its last key
    struct tree seen;
    struct base_span key;
    struct base_span bound; // no key from here on may be smaller
    struct frame frames[BASE_PAGES_DEPTH_MAX];
    struct tree tables[BASE_PAGES_TABLES_MAX];
    uint32_t table_count;
};

static uint32_t u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

BASE_PRINTF(2, 3)
static void find(struct walk *walk, const char *format, ...)
{
    char what[BASE_PAGES_TEXT_MAX / 2];
    char text[BASE_PAGES_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    bool in_tree = walk->tree != NULL;
    snprintf(text, sizeof(text), "%s%s%s: %s", walk->file->name, in_tree ? ", " : "",
             in_tree ? walk->tree->name : "", what);
    if (walk->findings == 0) {
        (void)base_error_set(walk->error, BASE_ERR_CORRUPT, "%s", text);
    }
    walk->findings++;
    if (walk->visitor->bad == NULL) {
        walk->stop = true;
        return;
    }
    walk->visitor->bad(walk->visitor->ctx, text);
}

// ---- Pages

// Takes pages for the current tree; false, with a finding, when they are not there or taken
// already.
static bool claim(struct walk *walk, uint64_t page, uint64_t count, bool in_file)
{
    if (page < 2 || page > walk->last || count > walk->last - page + 1) {
        find(walk, "page %" PRIu64 " is none of the file's", page);
        return false;
    }
    if (in_file && (page + count) * walk->page_bytes > walk->size) {
        find(walk, "page %" PRIu64 " lies behind the end: the file was cut", page);
        return false;
    }
    for (uint64_t i = page; i < page + count; i++) {
        if ((walk->claimed[i / 8] & (1u << (i % 8))) != 0) {
            find(walk, "page %" PRIu64 " is used twice", i);
            return false;
        }
        walk->claimed[i / 8] |= (uint8_t)(1u << (i % 8));
    }
    return true;
}

static const uint8_t *page_at(const struct walk *walk, uint64_t page)
{
    return walk->map + page * walk->page_bytes;
}

// A node: its head and its key, and of a leaf the value or the number of the page where it begins.
static uint64_t node_bytes(const uint8_t *node, bool leaf)
{
    uint64_t size = NODE_HEAD + base_stored_u16(node + 6);
    if (leaf) {
        uint64_t value = base_stored_u16(node) | (uint64_t)base_stored_u16(node + 2) << 16;
        size += (base_stored_u16(node + 4) & NODE_BIG) != 0 ? sizeof(uint64_t) : value;
    }
    return size;
}

// Do the nodes of a page lie side by side from `upper` to its end?
static bool tiles(struct walk *walk, const uint8_t *page, uint32_t count, bool leaf)
{
    base_assert(PAGE_HEAD + 2 * count <= base_stored_u16(page + 14));
    base_assert(base_stored_u16(page + 14) <= walk->page_bytes);
    uint32_t upper = base_stored_u16(page + 14);
    uint64_t sum = 0;
    memset(walk->units, 0, walk->page_bytes / 2);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t offset = base_stored_u16(page + PAGE_HEAD + 2 * i);
        if (offset < upper || offset % 2 != 0 || offset > walk->page_bytes - NODE_HEAD) {
            return false;
        }
        uint32_t room = walk->page_bytes - offset;
        uint64_t size = node_bytes(page + offset, leaf);
        if (size > room || size + size % 2 > room) {
            return false;
        }
        size += size % 2;
        if (memchr(walk->units + offset / 2, 1, size / 2) != NULL) {
            return false;
        }
        memset(walk->units + offset / 2, 1, size / 2);
        sum += size;
    }
    return sum == walk->page_bytes - upper;
}

// The page as a new frame, when it is what a page of that level must be.
static bool open_page(struct walk *walk, uint64_t number, bool leaf, struct frame *out)
{
    if (!claim(walk, number, 1, true)) {
        return false;
    }
    base_assert((number + 1) * walk->page_bytes <= walk->size);
    const uint8_t *page = page_at(walk, number);
    uint32_t lower = base_stored_u16(page + 12);
    uint32_t upper = base_stored_u16(page + 14);
    uint32_t flags = base_stored_u16(page + 10) & FLAG_KINDS;
    if (base_stored_u64(page) != number || flags != (leaf ? FLAG_LEAF : FLAG_BRANCH)) {
        find(walk, "page %" PRIu64 " is not the page it should be", number);
        return false;
    }
    bool head_ok =
        lower >= PAGE_HEAD && lower % 2 == 0 && lower <= upper && upper <= walk->page_bytes;
    uint32_t count = head_ok ? (lower - PAGE_HEAD) / 2 : 0;
    // LMDB itself insists on two children; an empty tree has no root.
    if (count < (leaf ? 1u : 2u) || !tiles(walk, page, count, leaf)) {
        find(walk, "page %" PRIu64 " is damaged", number);
        return false;
    }
    walk->seen.leaves += leaf;
    walk->seen.branches += !leaf;
    *out = (struct frame){page, count, 0};
    return true;
}

// ---- Keys and values

static int compare(const struct walk *walk, struct base_span left, struct base_span right)
{
    if (walk->tree->kind == TREE_FREE) {
        uint64_t x = base_stored_u64(left.data);
        uint64_t y = base_stored_u64(right.data);
        return x < y ? -1 : x > y;
    }
    size_t common = left.size < right.size ? left.size : right.size;
    int order = memcmp(left.data, right.data, common);
    return order != 0 ? order : (left.size > right.size) - (left.size < right.size);
}

static bool key_fits(const struct walk *walk, struct base_span key)
{
    return walk->tree->kind == TREE_FREE ? key.size == sizeof(uint64_t)
                                         : key.size > 0 && key.size <= KEY_MAX;
}

// What stands between two children: above all keys on its left, below none on its right.
static bool take_separator(struct walk *walk, struct base_span key)
{
    if (!key_fits(walk, key) || (walk->key.data != NULL && compare(walk, walk->key, key) >= 0)) {
        find(walk, "a branch is out of order");
        return false;
    }
    walk->bound = key;
    return true;
}

static bool take_key(struct walk *walk, struct base_span key)
{
    bool ok = key_fits(walk, key);
    ok = ok && (walk->key.data == NULL || compare(walk, walk->key, key) < 0);
    ok = ok && (walk->bound.data == NULL || compare(walk, walk->bound, key) <= 0);
    if (!ok) {
        find(walk, "a key is out of order");
        return false;
    }
    walk->key = key;
    return true;
}

// A value that is too long for its page.
static bool take_overflow(struct walk *walk, uint64_t number, struct base_span *value)
{
    uint64_t least = (PAGE_HEAD - 1 + value->size) / walk->page_bytes + 1;
    if (number > walk->last || (number + 1) * walk->page_bytes > walk->size) {
        find(walk, "page %" PRIu64 " of a long record is not there", number);
        return false;
    }
    const uint8_t *page = page_at(walk, number);
    uint64_t count = u32(page + 12);
    if (base_stored_u64(page) != number ||
        (base_stored_u16(page + 10) & FLAG_KINDS) != FLAG_OVERFLOW || count < least) {
        find(walk, "page %" PRIu64 " of a long record is damaged", number);
        return false;
    }
    if (!claim(walk, number, count, true)) {
        return false;
    }
    walk->seen.overflow += count;
    value->data = page + PAGE_HEAD;
    return true;
}

static void read_tree(const uint8_t *at, enum tree_kind kind, struct tree *out)
{
    *out = (struct tree){.kind = kind,
                         .flags = base_stored_u16(at + 4),
                         .depth = base_stored_u16(at + 6),
                         .branches = base_stored_u64(at + 8),
                         .leaves = base_stored_u64(at + 16),
                         .overflow = base_stored_u64(at + 24),
                         .entries = base_stored_u64(at + 32),
                         .root = base_stored_u64(at + 40)};
}

static void take_table(struct walk *walk, struct base_span key, struct base_span value,
                       uint16_t flags)
{
    if ((flags & NODE_SUB) == 0 || value.size != DB_BYTES || key.size >= BASE_PAGES_NAME_MAX ||
        walk->table_count == BASE_PAGES_TABLES_MAX) {
        find(walk, "an entry is no table");
        return;
    }
    struct tree *table = &walk->tables[walk->table_count++];
    read_tree(value.data, TREE_TABLE, table);
    memcpy(table->name, key.data, key.size);
}

// A count, then so many page numbers from high to low (LMDB's MDB_IDL).
static void take_free_pages(struct walk *walk, struct base_span key, struct base_span value)
{
    uint64_t room = value.size / sizeof(uint64_t);
    uint64_t count = room > 0 ? base_stored_u64(value.data) : 0;
    if (room == 0 || count >= room || base_stored_u64(key.data) > walk->txn) {
        find(walk, "a list of free pages is damaged");
        return;
    }
    uint64_t above = NO_PAGE;
    for (uint64_t i = 1; i <= count && !walk->stop; i++) {
        uint64_t page = base_stored_u64(value.data + i * sizeof(uint64_t));
        if (page >= above) {
            find(walk, "a list of free pages is out of order");
            return;
        }
        if (!claim(walk, page, 1, false)) {
            return;
        }
        above = page;
    }
}

static void take_leaf_node(struct walk *walk, const uint8_t *node)
{
    base_assert(node >= walk->map);
    base_assert(node + node_bytes(node, true) <= walk->map + walk->size); // tiles() saw it
    uint16_t flags = base_stored_u16(node + 4);
    struct base_span key = {node + NODE_HEAD, base_stored_u16(node + 6)};
    struct base_span value = {key.data + key.size,
                              base_stored_u16(node) | (uint32_t)base_stored_u16(node + 2) << 16};
    bool sub_allowed = walk->tree->kind == TREE_TABLES;
    if ((flags & ~(NODE_BIG | (sub_allowed ? NODE_SUB : 0u))) != 0) {
        find(walk, "a record of an unknown kind");
        return;
    }
    if (!take_key(walk, key) ||
        ((flags & NODE_BIG) != 0 && !take_overflow(walk, base_stored_u64(value.data), &value))) {
        return;
    }
    walk->seen.entries++;
    if (walk->tree->kind == TREE_TABLES) {
        take_table(walk, key, value, flags);
    } else if (walk->tree->kind == TREE_FREE) {
        take_free_pages(walk, key, value);
    } else if (walk->visitor->record != NULL) {
        walk->visitor->record(walk->visitor->ctx, walk->tree->name, key, value);
    }
}

// ---- Trees

// The child of a branch's node, by a page number of 48 bits.
static bool open_child(struct walk *walk, const struct frame *frame, uint32_t index, bool leaf,
                       struct frame *out)
{
    const uint8_t *node = frame->page + base_stored_u16(frame->page + PAGE_HEAD + 2 * index);
    struct base_span key = {node + NODE_HEAD, base_stored_u16(node + 6)};
    if (index > 0 && !take_separator(walk, key)) {
        return false;
    }
    uint64_t page = base_stored_u16(node) | (uint64_t)base_stored_u16(node + 2) << 16 |
                    (uint64_t)base_stored_u16(node + 4) << 32;
    return open_page(walk, page, leaf, out);
}

static void walk_pages(struct walk *walk, const struct tree *tree)
{
    base_assert(tree->depth > 0);
    base_assert(tree->depth <= BASE_PAGES_DEPTH_MAX);
    uint32_t level = 0;
    if (!open_page(walk, tree->root, tree->depth == 1, &walk->frames[0])) {
        return;
    }
    for (;;) {
        struct frame *frame = &walk->frames[level];
        if (walk->stop || (frame->next == frame->count && level == 0)) {
            return;
        }
        if (frame->next == frame->count) {
            level--;
            continue;
        }
        uint32_t index = frame->next++;
        if (level + 1u == tree->depth) {
            take_leaf_node(walk,
                           frame->page + base_stored_u16(frame->page + PAGE_HEAD + 2 * index));
        } else if (open_child(walk, frame, index, level + 2u == tree->depth,
                              &walk->frames[level + 1])) {
            level++;
        }
    }
}

static void take_count(struct walk *walk, const char *of, uint64_t seen, uint64_t said)
{
    if (seen != said) {
        find(walk, "%" PRIu64 " %s, but %" PRIu64 " are counted", seen, of, said);
    }
}

static void walk_tree(struct walk *walk, struct tree *tree)
{
    base_assert(memchr(tree->name, '\0', sizeof(tree->name)) != NULL);
    walk->tree = tree;
    walk->seen = (struct tree){0};
    walk->key = (struct base_span){NULL, 0};
    walk->bound = (struct base_span){NULL, 0};
    uint16_t kinds = tree->kind == TREE_FREE ? DB_INTEGER_KEYS : 0;
    if ((tree->flags & DB_KINDS) != kinds) {
        find(walk, "a tree of an unknown kind");
        return;
    }
    uint64_t before = walk->findings;
    if (tree->root == NO_PAGE) {
        if (tree->depth != 0) {
            find(walk, "a tree without a root");
            return;
        }
    } else if (tree->depth == 0 || tree->depth > BASE_PAGES_DEPTH_MAX) {
        find(walk, "a tree of %u levels", tree->depth);
        return;
    } else {
        walk_pages(walk, tree);
    }
    if (walk->findings == before) {
        const struct tree *seen = &walk->seen;
        take_count(walk, "records", seen->entries, tree->entries);
        take_count(walk, "leaves", seen->leaves, tree->leaves);
        take_count(walk, "branches", seen->branches, tree->branches);
        take_count(walk, "pages of long records", seen->overflow, tree->overflow);
    }
}

// ---- The file

// One of the two meta pages.
struct meta {
    struct tree trees[2];
    uint32_t page_bytes;
    uint64_t last, txn;
};

// False: it is none.
static bool read_meta(const struct walk *walk, uint64_t offset, struct meta *out)
{
    if (walk->size < offset + META_BYTES) {
        return false;
    }
    const uint8_t *page = walk->map + offset;
    const uint8_t *meta = page + PAGE_HEAD;
    if ((base_stored_u16(page + 10) & FLAG_KINDS) != FLAG_META || u32(meta) != MAGIC ||
        u32(meta + 4) != DATA_VERSION) {
        return false;
    }
    out->page_bytes = u32(meta + 24);
    read_tree(meta + 24, TREE_FREE, &out->trees[0]);
    read_tree(meta + 24 + DB_BYTES, TREE_TABLES, &out->trees[1]);
    out->last = base_stored_u64(meta + 24 + 2 * DB_BYTES);
    out->txn = base_stored_u64(meta + 32 + 2 * DB_BYTES);
    return true;
}

// The newer of the two, as LMDB would choose it. Its number says which page it is on, and the other
// is the one before it, so that no damage can make an old one look new.
static bool choose_meta(struct walk *walk, struct tree out_trees[2])
{
    base_assert(walk->tree == NULL); // what is found here is of none
    struct meta metas[2] = {{.page_bytes = 0}};
    bool ok = read_meta(walk, 0, &metas[0]);
    uint32_t size = metas[0].page_bytes;
    ok = ok && size >= PAGE_BYTES_MIN && size <= PAGE_BYTES_MAX && (size & (size - 1)) == 0;
    ok = ok && read_meta(walk, size, &metas[1]) && metas[1].page_bytes == size;
    if (!ok) {
        find(walk, "its first pages are not those of a store");
        return false;
    }
    const int newest = metas[1].txn > metas[0].txn;
    const struct meta *meta = &metas[newest];
    if ((meta->txn & 1) != (uint64_t)newest ||
        (meta->txn != 0 && meta->txn - metas[!newest].txn != 1) ||
        (meta->trees[0].flags & DB_FIXED_ADDRESS) != 0 ||
        meta->last > walk->size / size + SLACK_PAGES) {
        find(walk, "its first pages contradict each other");
        return false;
    }
    walk->page_bytes = size;
    walk->last = meta->last;
    walk->txn = meta->txn;
    out_trees[0] = meta->trees[0];
    out_trees[1] = meta->trees[1];
    return true;
}

static enum base_status walk_map(struct walk *walk)
{
    struct tree trees[2];
    if (walk->size == 0) {
        find(walk, "the file is empty");
    } else if (choose_meta(walk, trees)) {
        walk->claimed = calloc(walk->last / 8 + 1, 1);
        walk->units = malloc(walk->page_bytes / 2);
        if (walk->claimed == NULL || walk->units == NULL) {
            return base_error_set(walk->error, BASE_ERR_NOMEM, "no memory to look at the store");
        }
        memcpy(trees[0].name, "free pages", sizeof("free pages"));
        const char *main_name = walk->file->plain ? "records" : "tables";
        memcpy(trees[1].name, main_name, strlen(main_name) + 1);
        trees[1].kind = walk->file->plain ? TREE_TABLE : TREE_TABLES;
        walk_tree(walk, &trees[1]);
        base_assert(walk->table_count <= BASE_PAGES_TABLES_MAX);
        for (uint32_t i = 0; i < walk->table_count && !walk->stop; i++) {
            walk_tree(walk, &walk->tables[i]);
        }
        if (!walk->stop) {
            walk_tree(walk, &trees[0]); // last: nothing of the others may be free
        }
    }
    return walk->findings == 0 ? BASE_OK : BASE_ERR_CORRUPT;
}

static enum base_status map_file(const char *path, struct walk *walk, struct base_error *error)
{
    base_assert(walk->map == NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait for its other end
    if (fd < 0) {
        enum base_status status = errno == ENOENT ? BASE_ERR_NOT_FOUND : BASE_ERR_IO;
        return base_error_set(error, status, "%.100s: %s", path, strerror(errno));
    }
    struct stat about;
    enum base_status status = BASE_OK;
    if (fstat(fd, &about) != 0) {
        status = base_error_set(error, BASE_ERR_IO, "%.100s: %s", path, strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        status = base_error_set(error, BASE_ERR_INVALID, "%.100s is no regular file", path);
    } else if (about.st_size > 0) {
        void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) {
            status = base_error_set(error, BASE_ERR_IO, "%.100s: %s", path, strerror(errno));
        } else {
            (void)madvise(map, (size_t)about.st_size, MADV_WILLNEED);
            walk->map = map;
            walk->size = (uint64_t)about.st_size;
        }
    }
    close(fd);
    return status;
}

enum base_status base_pages_walk(const struct base_pages_file *file,
                                 const struct base_pages_visitor *visitor, struct base_error *error)
{
    struct walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory to look at the store");
    }
    walk->file = file;
    walk->visitor = visitor;
    walk->error = error;
    enum base_status status = map_file(file->path, walk, error);
    if (status == BASE_OK) {
        status = walk_map(walk);
    }
    if (walk->map != NULL) {
        (void)munmap((void *)(uintptr_t)walk->map, (size_t)walk->size);
    }
    free(walk->claimed);
    free(walk->units);
    free(walk);
    return status;
}
