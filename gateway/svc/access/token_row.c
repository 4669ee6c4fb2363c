// Roles, scopes and the stored form of a token. Pure.
//
//   token row := u8 version, sha256[32], u8 role, u16 tenant, u64 created_s, u64 expires_s,
//                u64 revoked_s, u64 last_used_s, u64 created_by, u32 uses, u32 uses_max,
//                u32 revision, u8 size, name, u8 count, count x (u8 size, scope)
//                [, u8 size, owner]
//
// Version 1 has no owner, version 2 has one.
#include "svc/access/operators.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

#define ROW_VERSION       1
#define ROW_VERSION_OWNER 2

static const char *const role_names[GW_ROLE_COUNT] = {
    [GW_ROLE_ENROL] = "enrol",       [GW_ROLE_VIEWER] = "viewer", [GW_ROLE_RELEASER] = "releaser",
    [GW_ROLE_APPROVER] = "approver", [GW_ROLE_ADMIN] = "admin",
};

const char *gw_role_name(enum gw_role role)
{
    return (unsigned)role < GW_ROLE_COUNT ? role_names[role] : "unknown";
}

enum gw_role gw_role_of(struct base_str name)
{
    unsigned role = 0;
    while (role < GW_ROLE_COUNT && !base_str_equal(name, base_str_of(role_names[role]))) {
        role++;
    }
    return (enum gw_role)role;
}

// The next character that counts, 0 at the end.
static char next_of(struct base_str *text)
{
    while (text->size > 0) {
        char c = *text->data++;
        text->size--;
        if (c != ' ' && c != '\t') {
            return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
    }
    return 0;
}

bool gw_same_person(struct base_str a, struct base_str b)
{
    char x = 0;
    char y = 0;
    do {
        x = next_of(&a);
        y = next_of(&b);
    } while (x == y && x != 0);
    return x == y;
}

static struct base_str scenario_of(struct base_str task)
{
    const char *slash = task.size > 0 ? memchr(task.data, '/', task.size) : NULL;
    return slash != NULL ? (struct base_str){task.data, (size_t)(slash - task.data)} : task;
}

bool gw_actor_covers(const struct gw_actor *actor, struct base_str task)
{
    struct base_str scenario = scenario_of(task);
    for (uint32_t i = 0; i < actor->scope_count; i++) {
        struct base_str scope = base_str_of(actor->scopes[i]);
        bool prefix = scope.size > 0 && scope.data[scope.size - 1] == '*';
        if (prefix) {
            scope.size--;
        }
        if (prefix ? base_str_starts(scenario, scope) : base_str_equal(scenario, scope)) {
            return true;
        }
    }
    return actor->scope_count == 0;
}

// Is what one scope names among what another does?
static bool scope_within(struct base_str scope, struct base_str whole)
{
    if (whole.size == 0 || whole.data[whole.size - 1] != '*') {
        return base_str_equal(scope, whole);
    }
    whole.size--;
    return base_str_starts(scope, whole);
}

bool gw_actor_holds(const struct gw_actor *actor, const struct gw_token_view *token)
{
    bool holds = actor->scope_count == 0 || token->scope_count > 0;
    for (uint32_t i = 0; i < token->scope_count && holds; i++) {
        bool within = actor->scope_count == 0;
        for (uint32_t k = 0; k < actor->scope_count && !within; k++) {
            within = scope_within(base_str_of(token->scopes[i]), base_str_of(actor->scopes[k]));
        }
        holds = within;
    }
    return holds;
}

bool gw_scope_ok(struct base_str scope)
{
    if (scope.size > 0 && scope.size <= WIRE_TASK_NAME_MAX && scope.data[scope.size - 1] == '*') {
        scope.size--;
    }
    return wire_task_name_ok(scope) && memchr(scope.data, '/', scope.size) == NULL;
}

size_t gw_token_encode(const struct gw_token *token, uint8_t out[GW_TOKEN_ROW_MAX])
{
    const struct gw_token_view *view = &token->view;
    struct base_writer writer;
    base_writer_init(&writer, out, GW_TOKEN_ROW_MAX);
    base_writer_u8(&writer, view->owner[0] != 0 ? ROW_VERSION_OWNER : ROW_VERSION);
    base_writer_bytes(&writer, token->hash.bytes, WIRE_SHA256_BYTES);
    base_writer_u8(&writer, (uint8_t)view->role);
    base_writer_u16(&writer, view->tenant);
    base_writer_u64(&writer, view->created_s);
    base_writer_u64(&writer, view->expires_s);
    base_writer_u64(&writer, view->revoked_s);
    base_writer_u64(&writer, view->last_used_s);
    base_writer_u64(&writer, view->created_by);
    base_writer_u32(&writer, view->uses);
    base_writer_u32(&writer, view->uses_max);
    base_writer_u32(&writer, view->revision);
    size_t size = strnlen(view->name, GW_TOKEN_NAME_MAX);
    base_writer_u8(&writer, (uint8_t)size);
    base_writer_bytes(&writer, view->name, size);
    base_writer_u8(&writer, (uint8_t)view->scope_count);
    for (uint32_t i = 0; i < view->scope_count; i++) {
        size = strnlen(view->scopes[i], WIRE_TASK_NAME_MAX);
        base_writer_u8(&writer, (uint8_t)size);
        base_writer_bytes(&writer, view->scopes[i], size);
    }
    if (view->owner[0] != 0) {
        size = strnlen(view->owner, GW_TOKEN_NAME_MAX);
        base_writer_u8(&writer, (uint8_t)size);
        base_writer_bytes(&writer, view->owner, size);
    }
    // 1 + 32 + 3 + 40 + 12 + 65 + 1 + 16 * 65 + 65 bytes at most.
    base_check(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

static bool read_text(struct base_reader *reader, char *out, size_t max)
{
    size_t size = base_reader_u8(reader);
    if (size == 0 || size > max) {
        return false;
    }
    base_reader_copy(reader, out, size);
    return memchr(out, 0, size) == NULL;
}

enum base_status gw_token_decode(const uint8_t *bytes, size_t size, struct gw_token *out)
{
    struct base_reader reader;
    struct gw_token token = {0};
    struct gw_token_view *view = &token.view;
    base_reader_init(&reader, bytes, size);
    unsigned version = base_reader_u8(&reader);
    bool ok = version == ROW_VERSION || version == ROW_VERSION_OWNER;
    base_reader_copy(&reader, token.hash.bytes, WIRE_SHA256_BYTES);
    unsigned role = base_reader_u8(&reader);
    view->tenant = base_reader_u16(&reader);
    view->created_s = base_reader_u64(&reader);
    view->expires_s = base_reader_u64(&reader);
    view->revoked_s = base_reader_u64(&reader);
    view->last_used_s = base_reader_u64(&reader);
    view->created_by = base_reader_u64(&reader);
    view->uses = base_reader_u32(&reader);
    view->uses_max = base_reader_u32(&reader);
    view->revision = base_reader_u32(&reader);
    ok = ok && role < GW_ROLE_COUNT && read_text(&reader, view->name, GW_TOKEN_NAME_MAX);
    view->scope_count = base_reader_u8(&reader);
    ok = ok && view->scope_count <= GW_TOKEN_SCOPES_MAX;
    for (uint32_t i = 0; ok && i < view->scope_count; i++) {
        ok = read_text(&reader, view->scopes[i], WIRE_TASK_NAME_MAX) &&
             gw_scope_ok(base_str_of(view->scopes[i]));
    }
    if (ok && version == ROW_VERSION_OWNER) {
        ok = read_text(&reader, view->owner, GW_TOKEN_NAME_MAX);
    }
    if (!ok || base_reader_finish(&reader) != BASE_OK) {
        return BASE_ERR_CORRUPT;
    }
    view->role = (enum gw_role)role;
    token.stored_used_s = view->last_used_s;
    *out = token;
    return BASE_OK;
}
