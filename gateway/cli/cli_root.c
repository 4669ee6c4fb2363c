// Commands `root ...`: the ceremony of keys. Private root keys are read here and nowhere else; the
// gateway only ever gets what they signed. One thread. The table in cli_commands.c names them. A
// root is edited in the form of root_edit.c, signed by gateway/signing, and written to a file that
// travels between the people who sign it; `root push` sends it, when it is complete. A gateway is
// asked for its online keys, for the root that it serves and to take one, for nothing else.
#include "cli/base/cli.h"
#include "cli/base/cli_files.h"
#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"
#include "cli/base/duration.h"
#include "cli/root_edit.h"
#include "cli/rollout/served_root.h"
#include "signing/signing.h"

#include "base/os/output_file.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPIRES_DAYS     365
#define EXPIRES_DAYS_MAX 3650
#define LEASE_S          3600
#define WIDE_PERCENT     5.0
#define DAY_S            86400u
#define KEY_SHOWN        16 // hex digits
#define KEYS_TEXT_MAX    (WIRE_ROOT_KEYS_MAX * (KEY_SHOWN + 8))

// ---- Reading the options into an edit

static enum cli_exit local(const struct base_error *error)
{
    return cli_fail(CLI_EXIT_LOCAL, "%s", error->text);
}

static enum cli_exit online_key(const json_t *trust, const char *name, struct root_edit *edit,
                                enum wire_root_role role)
{
    uint8_t key[WIRE_PUBLIC_KEY_BYTES];
    const char *hex = cli_json_text(trust, name, "");

    if (base_hex_decode(base_str_of(hex), key, sizeof(key)) != BASE_OK ||
        strlen(hex) != 2 * sizeof(key)) {
        return cli_fail(CLI_EXIT_REFUSED, "the gateway's %s is garbled", name);
    }
    edit->roles[role].count = 0;
    edit->thresholds[role] = 1;
    return root_keys_add(&edit->roles[role], key) == BASE_OK
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_LOCAL, "too many keys");
}

// The gateway's own keys speak for the online roles.
static enum cli_exit take_online(const struct cli *cli, struct root_edit *edit)
{
    json_t *trust = NULL;
    enum cli_exit code = cli_api_call(cli, "GET", "/api/v1/trust", NULL, &trust);

    if (code == CLI_EXIT_OK) {
        code = online_key(trust, "timestamp_key", edit, WIRE_ROLE_TIMESTAMP);
    }
    if (code == CLI_EXIT_OK) {
        code = online_key(trust, "snapshot_key", edit, WIRE_ROLE_SNAPSHOT);
    }
    if (code == CLI_EXIT_OK) {
        code = online_key(trust, "director_key", edit, WIRE_ROLE_DIRECTOR);
    }
    json_decref(trust);
    return code;
}

// Root role: --member, and at the first root every --key.
static enum cli_exit take_members(const struct cli *cli, const struct signing_keys *keys,
                                  bool is_first, struct root_edit *edit)
{
    struct root_keys *root = &edit->roles[WIRE_ROLE_ROOT];
    struct base_error error = {0};
    uint64_t threshold = 0;

    if (cli_given(cli, CLI_OPTION_MEMBER) &&
        root_keys_load(cli->values[CLI_OPTION_MEMBER], root, &error) != BASE_OK) {
        return local(&error);
    }
    for (uint32_t i = 0; i < keys->count && is_first; i++) {
        uint8_t key[WIRE_PUBLIC_KEY_BYTES];
        signing_key_public(keys->keys[i], key);
        if (root_keys_add(root, key) != BASE_OK) {
            return cli_fail(CLI_EXIT_LOCAL, "more than %d keys", WIRE_ROOT_KEYS_MAX);
        }
    }
    bool keep = !is_first && !cli_given(cli, CLI_OPTION_MEMBER);
    const struct cli_range range = {
        .least = 1,
        .most = root->count,
        .fallback = keep ? edit->thresholds[WIRE_ROLE_ROOT] : root->count / 2 + 1,
        .of = "root keys",
    };
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_THRESHOLD, &range, &threshold);
    edit->thresholds[WIRE_ROLE_ROOT] = (uint8_t)threshold;
    return code;
}

static enum cli_exit take_releases(const struct cli *cli, struct root_edit *edit)
{
    const char *prefix = cli_given(cli, CLI_OPTION_PREFIX) ? cli->values[CLI_OPTION_PREFIX] : "";
    struct base_error error = {0};
    uint64_t narrow = 0;
    uint64_t wide = 0;
    bool any = cli_given(cli, CLI_OPTION_RELEASE) || cli_given(cli, CLI_OPTION_NARROW) ||
               cli_given(cli, CLI_OPTION_WIDE);

    if (!any) {
        return CLI_EXIT_OK;
    }
    struct root_edit_release *release = root_edit_release_of(edit, prefix);
    if (release == NULL) {
        return cli_fail(CLI_EXIT_USAGE, "--prefix: too long, or too many of them");
    }
    if (cli_given(cli, CLI_OPTION_RELEASE)) {
        if (root_keys_load(cli->values[CLI_OPTION_RELEASE], &release->keys, &error) != BASE_OK) {
            return local(&error);
        }
        release->narrow = 1;
        release->wide = release->keys.count > 1 ? 2 : 1;
    }
    if (release->keys.count == 0) {
        return cli_fail(CLI_EXIT_USAGE, "--release FILE is missing: who may sign releases%s%s",
                        prefix[0] != '\0' ? " of tasks named " : "", prefix);
    }
    struct cli_range range = {
        .least = 1,
        .most = release->keys.count,
        .fallback = release->narrow,
        .of = "release keys",
    };
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_NARROW, &range, &narrow);
    if (code == CLI_EXIT_OK) {
        range.least = narrow;
        range.fallback = release->wide > narrow ? release->wide : narrow;
        code = cli_option_range(cli, CLI_OPTION_WIDE, &range, &wide);
    }
    release->narrow = (uint8_t)narrow;
    release->wide = (uint8_t)wide;
    return code;
}

static enum cli_exit take_numbers(const struct cli *cli, bool is_first, struct root_edit *edit)
{
    double percent = 0;
    uint64_t lease_s = 0;
    uint64_t days = 0;
    enum cli_exit code =
        cli_option_real(cli, CLI_OPTION_WIDE_PERCENT,
                        is_first ? WIDE_PERCENT : edit->wide_bucket / 100.0, 100, &percent);

    if (code == CLI_EXIT_OK) {
        code = cli_option_u64(cli, CLI_OPTION_LEASE, is_first ? LEASE_S : edit->lease_max_s,
                              WIRE_ROOT_LEASE_S_MAX, &lease_s);
    }
    if (code == CLI_EXIT_OK) {
        const struct cli_range range = {1, EXPIRES_DAYS_MAX, EXPIRES_DAYS, NULL};
        code = cli_option_range(cli, CLI_OPTION_EXPIRES, &range, &days);
    }
    edit->wide_bucket = (uint16_t)(percent * 100 + 0.5);
    edit->lease_max_s = (uint32_t)lease_s;
    edit->issued_s = base_clock_wall_us() / 1000000;
    edit->expires_s = edit->issued_s + days * DAY_S;
    return code;
}

// ---- Files

static enum cli_exit write_root(const struct cli *cli, const struct signing_keys *keys,
                                const struct root_edit *edit, const char *path)
{
    uint8_t payload[WIRE_META_BYTES_MAX];
    uint8_t bytes[WIRE_META_BYTES_MAX];
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_ROOT, .payload = payload};
    size_t size = 0;
    struct base_error error = {0};

    if (root_edit_encode(edit, payload, sizeof(payload), &envelope.payload_bytes, &error) !=
        BASE_OK) {
        return local(&error);
    }
    enum base_status status = signing_envelope(keys, &envelope, bytes, sizeof(bytes), &size);
    if (status != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "cannot sign the root: %s", base_status_text(status));
    }
    if (base_output_write(path, bytes, size, &error) != BASE_OK) {
        return local(&error);
    }
    if (cli->json) {
        json_t *root = json_pack("{s:s, s:I}", "file", path, "version", (json_int_t)edit->version);
        cli_json_print(root);
        json_decref(root);
    } else {
        printf("root %llu written to %s\n", (unsigned long long)edit->version, path);
    }
    return CLI_EXIT_OK;
}

// A root on disk. `envelope` and `root` point into *bytes, which the caller frees.
struct root_file {
    uint8_t *bytes;
    size_t size;
    struct wire_envelope envelope;
    struct wire_root root;
};

// What its bytes say; `from`: where they are from. Releases them when they are no root.
static enum cli_exit parse_root(const char *from, struct root_file *out)
{
    enum base_status status = wire_envelope_parse(out->bytes, out->size, &out->envelope);
    if (status == BASE_OK && out->envelope.type != WIRE_ENVELOPE_TYPE_ROOT) {
        status = BASE_ERR_UNSUPPORTED;
    }
    if (status == BASE_OK) {
        status = wire_root_parse(out->envelope.payload, out->envelope.payload_bytes, &out->root);
    }
    if (status != BASE_OK) {
        free(out->bytes);
        out->bytes = NULL;
        return cli_fail(CLI_EXIT_LOCAL, "%s: not a root: %s", from, base_status_text(status));
    }
    return CLI_EXIT_OK;
}

static enum cli_exit read_root(const char *path, struct root_file *out)
{
    struct base_error error = {0};

    return cli_file_read(path, WIRE_META_BYTES_MAX, &out->bytes, &out->size, &error) == BASE_OK
               ? parse_root(path, out)
               : local(&error);
}

// The newest one that the gateway serves.
static enum cli_exit fetch_root(const struct cli *cli, struct root_file *out)
{
    enum cli_exit code = served_root_fetch(cli, &out->bytes, &out->size);

    if (code == CLI_EXIT_OK && out->size == 0) {
        code = cli_fail(CLI_EXIT_REFUSED, "%s serves no root (walle root push FILE hands it one)",
                        cli_http_gateway(cli));
    }
    return code == CLI_EXIT_OK ? parse_root(cli_http_gateway(cli), out) : code;
}

// A root that lies there may be the only copy of it, with signatures that people came together for.
static enum cli_exit check_is_new(const char *path)
{
    struct stat there;

    return lstat(path, &there) == 0 && S_ISREG(there.st_mode)
               ? cli_fail(CLI_EXIT_LOCAL,
                          "%s exists already and is not replaced: name another file", path)
               : CLI_EXIT_OK;
}

static enum cli_exit load_keys(const struct cli *cli, struct signing_keys *keys)
{
    struct base_error error = {0};

    if (!cli_given(cli, CLI_OPTION_KEY)) {
        return cli_fail(CLI_EXIT_USAGE, "--key FILE is missing: a private key that signs the root");
    }
    return signing_keys_load(cli->values[CLI_OPTION_KEY], keys, &error) == BASE_OK ? CLI_EXIT_OK
                                                                                   : local(&error);
}

// ---- Commands

// The beginning of each, as `root show` and the files .pub have them.
static void list_keys(const struct root_keys *keys, char *out, size_t size)
{
    char hex[2 * WIRE_PUBLIC_KEY_BYTES + 1] = "";

    out[0] = '\0';
    for (uint32_t i = 0; i < keys->count; i++) {
        size_t used = strlen(out);
        base_hex_encode(keys->keys[i], WIRE_PUBLIC_KEY_BYTES, hex);
        (void)snprintf(out + used, size - used, "%s%.*s...", i > 0 ? ", " : "", KEY_SHOWN, hex);
    }
}

// What another key signs counts for nobody: root keys of the one before or of
// the new one sign.
static enum cli_exit check_signers(const struct signing_keys *keys, const struct root_keys *before,
                                   const struct root_keys *after)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        char own[KEYS_TEXT_MAX];
        char roots[KEYS_TEXT_MAX];
        struct root_keys one = {.count = 1};
        signing_key_public(keys->keys[i], one.keys[0]);
        if (!root_keys_have(before, one.keys[0]) && !root_keys_have(after, one.keys[0])) {
            list_keys(&one, own, sizeof(own));
            list_keys(before, roots, sizeof(roots));
            return cli_fail(CLI_EXIT_LOCAL,
                            "--key %s is none of the root's keys, which are %s; a new one of them "
                            "is named with --member, beside those that stay",
                            own, roots);
        }
    }
    return CLI_EXIT_OK;
}

static enum cli_exit make_root(struct cli *cli, struct root_edit *edit, bool is_first,
                               const char *path)
{
    const struct root_keys before = edit->roles[WIRE_ROLE_ROOT];
    struct signing_keys keys = {.count = 0};
    enum cli_exit code = load_keys(cli, &keys);

    if (code == CLI_EXIT_OK) {
        code = take_members(cli, &keys, is_first, edit);
    }
    if (code == CLI_EXIT_OK && !is_first) {
        code = check_signers(&keys, &before, &edit->roles[WIRE_ROLE_ROOT]);
    }
    if (code == CLI_EXIT_OK) {
        code = take_releases(cli, edit);
    }
    if (code == CLI_EXIT_OK) {
        code = take_numbers(cli, is_first, edit);
    }
    if (code == CLI_EXIT_OK) {
        code = take_online(cli, edit);
    }
    if (code == CLI_EXIT_OK && edit->release_count == 0) {
        code = cli_fail(CLI_EXIT_USAGE, "--release FILE is missing: who may sign releases");
    }
    if (code == CLI_EXIT_OK) {
        code = write_root(cli, &keys, edit, path);
    }
    signing_keys_done(&keys);
    return code;
}

enum cli_exit cli_root_init(struct cli *cli)
{
    struct root_edit edit = {.version = 1};

    if (!cli_given(cli, CLI_OPTION_OUT)) {
        return cli_fail(CLI_EXIT_USAGE, "--out FILE is missing: where the root goes");
    }
    enum cli_exit code = check_is_new(cli->values[CLI_OPTION_OUT]);
    return code == CLI_EXIT_OK ? make_root(cli, &edit, true, cli->values[CLI_OPTION_OUT]) : code;
}

enum cli_exit cli_root_rotate(struct cli *cli)
{
    struct root_file file = {.bytes = NULL};
    struct root_edit edit;

    if (!cli_given(cli, CLI_OPTION_OUT)) {
        return cli_fail(CLI_EXIT_USAGE, "--out FILE is missing: where the new root goes");
    }
    enum cli_exit code = check_is_new(cli->values[CLI_OPTION_OUT]);
    if (code == CLI_EXIT_OK) {
        code = read_root(cli->args[0], &file);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    root_edit_of(&file.root, &edit);
    free(file.bytes);
    edit.version++;
    return make_root(cli, &edit, false, cli->values[CLI_OPTION_OUT]);
}

static void root_members(const struct root_file *file, struct root_keys *out)
{
    struct root_edit edit;

    root_edit_of(&file->root, &edit);
    *out = edit.roles[WIRE_ROLE_ROOT];
}

// What another key signs counts for nobody. `before`: the root that it follows, without bytes where
// none was named.
static enum cli_exit check_cosigners(const struct signing_keys *keys, const struct root_file *file,
                                     const struct root_file *before)
{
    struct root_keys members;
    struct root_keys earlier = {.count = 0};

    root_members(file, &members);
    if (before->bytes != NULL) {
        root_members(before, &earlier);
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        char own[KEYS_TEXT_MAX];
        char roots[KEYS_TEXT_MAX];
        struct root_keys one = {.count = 1};
        signing_key_public(keys->keys[i], one.keys[0]);
        if (!root_keys_have(&members, one.keys[0]) && !root_keys_have(&earlier, one.keys[0])) {
            list_keys(&one, own, sizeof(own));
            list_keys(&members, roots, sizeof(roots));
            return cli_fail(CLI_EXIT_LOCAL, "--key %s is none of the root's keys, which are %s%s",
                            own, roots,
                            before->bytes == NULL && file->root.version > 1
                                ? "; one of the root before it signs with --from FILE, that root"
                                : "");
        }
    }
    return CLI_EXIT_OK;
}

// The root that `file` follows.
static enum cli_exit read_before(const struct cli *cli, const struct root_file *file,
                                 struct root_file *out)
{
    if (!cli_given(cli, CLI_OPTION_FROM)) {
        return CLI_EXIT_OK;
    }
    enum cli_exit code = read_root(cli->values[CLI_OPTION_FROM], out);
    return code != CLI_EXIT_OK || out->root.version + 1 == file->root.version
               ? code
               : cli_fail(CLI_EXIT_LOCAL, "--from %s: root %llu, which root %llu does not follow",
                          cli->values[CLI_OPTION_FROM], (unsigned long long)out->root.version,
                          (unsigned long long)file->root.version);
}

enum cli_exit cli_root_sign(struct cli *cli)
{
    struct root_file before = {.bytes = NULL};
    struct root_file file = {.bytes = NULL};
    struct signing_keys keys = {.count = 0};
    struct base_error error = {0};
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = 0;
    enum cli_exit code = load_keys(cli, &keys);

    if (code == CLI_EXIT_OK) {
        code = read_root(cli->args[0], &file);
    }
    if (code == CLI_EXIT_OK) {
        code = read_before(cli, &file, &before);
    }
    if (code == CLI_EXIT_OK) {
        code = check_cosigners(&keys, &file, &before);
    }
    if (code == CLI_EXIT_OK) {
        enum base_status status =
            signing_envelope(&keys, &file.envelope, bytes, sizeof(bytes), &size);
        if (status != BASE_OK) {
            code = cli_fail(CLI_EXIT_LOCAL, "cannot sign: %s", base_status_text(status));
        } else if (base_output_write(cli->args[0], bytes, size, &error) != BASE_OK) {
            code = local(&error);
        }
    }
    free(before.bytes);
    free(file.bytes);
    signing_keys_done(&keys);
    return code;
}

static json_t *hex_of(const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    char hex[2 * WIRE_PUBLIC_KEY_BYTES + 1] = "";

    base_hex_encode(key, WIRE_PUBLIC_KEY_BYTES, hex);
    return json_stringn(hex, 2 * WIRE_PUBLIC_KEY_BYTES);
}

static json_t *keys_json(const struct root_keys *keys)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < keys->count; i++) {
        (void)json_array_append_new(list, hex_of(keys->keys[i]));
    }
    return list;
}

// Which of its root keys signed: what others sign counts for nobody.
static json_t *signers_json(const struct root_file *file)
{
    struct wire_verifier verifier = signing_verifier();
    json_t *list = json_array();

    for (uint32_t i = 0; i < file->root.key_count; i++) {
        struct wire_role one = {.threshold = 1, .keys = (uint16_t)(1u << i)};
        if ((file->root.roles[WIRE_ROLE_ROOT].keys & one.keys) != 0 &&
            wire_root_verify(&file->root, &one, 1, &file->envelope, &verifier) == BASE_OK) {
            (void)json_array_append_new(list, hex_of(file->root.keys[i]));
        }
    }
    return list;
}

static json_t *root_json(const struct root_file *file, const struct root_edit *edit)
{
    json_t *roles = json_object();
    json_t *releases = json_array();

    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        (void)json_object_set_new(roles, root_role_name((enum wire_root_role)i),
                                  json_pack("{s:i, s:o}", "threshold", edit->thresholds[i], "keys",
                                            keys_json(&edit->roles[i])));
    }
    for (uint32_t i = 0; i < edit->release_count; i++) {
        const struct root_edit_release *release = &edit->releases[i];
        (void)json_array_append_new(releases,
                                    json_pack("{s:s, s:i, s:i, s:o}", "prefix", release->prefix,
                                              "narrow", release->narrow, "wide", release->wide,
                                              "keys", keys_json(&release->keys)));
    }
    return json_pack("{s:I, s:I, s:I, s:f, s:I, s:o, s:o, s:o}", "version",
                     (json_int_t)edit->version, "issued_s", (json_int_t)edit->issued_s, "expires_s",
                     (json_int_t)edit->expires_s, "wide_percent", edit->wide_bucket / 100.0,
                     "lease_s", (json_int_t)edit->lease_max_s, "roles", roles, "releases", releases,
                     "signed_by", signers_json(file));
}

static void print_keys(const json_t *role)
{
    size_t index;
    json_t *key;

    json_array_foreach(json_object_get(role, "keys"), index, key)
    {
        printf("    %s\n", cli_shown(json_string_value(key)));
    }
}

static void print_root(const json_t *root)
{
    const char *name;
    json_t *role;
    size_t index;

    char expires[TIME_TEXT_MAX];
    printf("version %llu, expires %s, lease at most %llu s\n",
           (unsigned long long)cli_json_u64(root, "version"),
           time_text(cli_json_u64(root, "expires_s"), false, expires),
           (unsigned long long)cli_json_u64(root, "lease_s"));
    json_object_foreach(json_object_get(root, "roles"), name, role)
    {
        printf("  %s: %llu of\n", name, (unsigned long long)cli_json_u64(role, "threshold"));
        print_keys(role);
    }
    json_array_foreach(json_object_get(root, "releases"), index, role)
    {
        printf("  release '%s': %llu, above %g %% of the devices %llu of\n",
               cli_json_text(role, "prefix", ""), (unsigned long long)cli_json_u64(role, "narrow"),
               json_number_value(json_object_get(root, "wide_percent")),
               (unsigned long long)cli_json_u64(role, "wide"));
        print_keys(role);
    }
    printf("signed by %zu of its root keys\n", json_array_size(json_object_get(root, "signed_by")));
}

// The file that is named, or with --served the gateway's.
static enum cli_exit choose_root(const struct cli *cli, struct root_file *out)
{
    bool served = cli_given(cli, CLI_OPTION_SERVED);

    if (served == (cli->arg_count > 0)) {
        return cli_fail(CLI_EXIT_USAGE, "a FILE, or --served for the root that the gateway serves");
    }
    if (!served && cli_given(cli, CLI_OPTION_OUT)) {
        return cli_fail(CLI_EXIT_USAGE, "--out goes with --served");
    }
    return served ? fetch_root(cli, out) : read_root(cli->args[0], out);
}

// As it was signed, for `root rotate`.
static enum cli_exit keep_root(const struct root_file *file, const char *path)
{
    struct base_error error = {0};
    enum cli_exit code = check_is_new(path);

    if (code == CLI_EXIT_OK &&
        base_output_write(path, file->bytes, file->size, &error) != BASE_OK) {
        code = local(&error);
    }
    return code;
}

enum cli_exit cli_root_show(struct cli *cli)
{
    struct root_file file = {.bytes = NULL};
    struct root_edit edit;
    enum cli_exit code = choose_root(cli, &file);

    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_OUT)) {
        code = keep_root(&file, cli->values[CLI_OPTION_OUT]);
    }
    if (code != CLI_EXIT_OK) {
        free(file.bytes);
        return code;
    }
    root_edit_of(&file.root, &edit);
    json_t *root = root_json(&file, &edit);
    if (cli->json) {
        cli_json_print(root);
    } else {
        print_root(root);
    }
    json_decref(root);
    free(file.bytes);
    return CLI_EXIT_OK;
}

// Where the root goes: with what its sender accepts, and why.
static enum cli_exit push_path(const struct cli *cli, char out[CLI_PATH_MAX])
{
    bool accept = cli_given(cli, CLI_OPTION_ACCEPT_KEYS);

    if (accept && !cli_gives_reason(cli)) {
        return cli_fail(CLI_EXIT_USAGE, "--accept-keys needs --reason");
    }
    (void)snprintf(out, CLI_PATH_MAX, "/api/v1/trust/root%s",
                   accept ? "?accept_keys=true&reason=" : "");
    return !accept || cli_path_add(out, CLI_PATH_MAX, cli->values[CLI_OPTION_REASON])
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_USAGE, "--reason is too long");
}

static void say_pushed(const struct cli *cli, const struct root_file *file,
                       const struct cli_answer *answer)
{
    json_t *trust = served_ask(cli, "GET", "/api/v1/trust", NULL);
    uint64_t served = cli_json_u64(trust, "root_version");

    json_t *said = answer->body_bytes > 0
                       ? json_loadb(answer->body, answer->body_bytes, JSON_REJECT_DUPLICATES, NULL)
                       : NULL;

    json_decref(trust);
    if (served > file->root.version) {
        printf("root %llu is known already, root %llu is the one that is served\n",
               (unsigned long long)file->root.version, (unsigned long long)served);
    } else {
        printf("root %llu is served\n", (unsigned long long)file->root.version);
    }
    if (json_is_false(json_object_get(said, "keys_match"))) {
        fputs("walle: warning: the newest root does not name this gateway's keys: devices take no "
              "release from it\n",
              stderr);
    }
    json_decref(said);
}

// Which root the gateway has, and which it was handed: its refusal says neither.
static void say_served(const struct cli *cli, const struct root_file *file)
{
    json_t *trust = served_ask(cli, "GET", "/api/v1/trust", NULL);
    unsigned long long served = cli_json_u64(trust, "root_version");
    unsigned long long own = file->root.version;

    json_decref(trust);
    if (served == 0) {
        return;
    }
    fprintf(stderr, "  %s serves root %llu; %s is ", cli_http_gateway(cli), served, cli->args[0]);
    if (own < served) {
        fprintf(stderr, "root %llu, and not the root %llu that it served before\n", own, own);
    } else if (own == served) {
        fprintf(stderr, "another root %llu\n", own);
    } else {
        fprintf(stderr,
                "root %llu; what follows is root %llu, signed by root keys of root %llu (walle "
                "root rotate)\n",
                own, served + 1, served);
    }
}

enum cli_exit cli_root_push(struct cli *cli)
{
    struct root_file file = {.bytes = NULL};
    struct cli_answer answer = {0};
    char path[CLI_PATH_MAX];
    enum cli_exit code = push_path(cli, path);

    if (code == CLI_EXIT_OK) {
        code = read_root(cli->args[0], &file);
    }
    if (code == CLI_EXIT_OK) {
        struct cli_call call = {.method = "PUT",
                                .path = path,
                                .content_type = "application/octet-stream",
                                .body = file.bytes,
                                .body_bytes = file.size};
        code = cli_http_call(cli, &call, &answer);
    }
    if (code == CLI_EXIT_OK && answer.status >= 400) {
        code = cli_refused(cli, &answer);
        if (answer.status == 403 && strstr(cli_why(), ": root: ") != NULL) { // not of who asks
            say_served(cli, &file);
        }
        if (answer.status == 409) {
            fputs(
                "  devices would take no release from it. Make a root that names them: walle root "
                "init or root rotate\n  with --gateway of this one, signed again; or move its "
                "DIR/keys here; --accept-keys --reason TEXT serves this one\n",
                stderr);
        }
    }
    if (code == CLI_EXIT_OK && !cli->json) {
        say_pushed(cli, &file, &answer);
    } else if (code == CLI_EXIT_OK) {
        printf("%s\n", answer.body != NULL ? answer.body : "{}");
    }
    cli_answer_done(&answer);
    free(file.bytes);
    return code;
}
