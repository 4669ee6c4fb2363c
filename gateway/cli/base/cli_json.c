// JSON files, answers and API calls of the command: nearly every command goes through here. One
// thread; cli_main.c seeds the library's hashes at the start. A text that comes from the gateway
// passes cli_shown before it is printed, so that nothing in it moves the terminal's cursor. A
// problem of the API becomes a message and CLI_EXIT_REFUSED here, once for all commands.
#include "cli/base/cli_json.h"

#include "base/prng.h"
#include "base/os/regular_file.h"
#include "base/text/likeness.h"
#include "base/visible.h"
#include "cli/base/cli_http.h"
#include "cli/base/task_hint.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_MAX     500
#define SHOWN_COPIES 8
#define OWN_NAME_MAX 64

void cli_json_seed(void)
{
    // 0 would let jansson draw by itself; any other value is taken as the seed.
    json_object_seed((size_t)base_entropy_u64() | 1u);
}

static enum base_status read_text(const char *path, char **out_text, size_t *out_size,
                                  struct base_error *error)
{
    FILE *file = NULL;
    BASE_TRY(base_regular_stream(path, &file, error));
    char *text = malloc(CLI_JSON_FILE_MAX + 1);
    size_t size = text == NULL ? 0 : fread(text, 1, CLI_JSON_FILE_MAX + 1, file);
    bool failed = text == NULL || ferror(file) != 0;
    fclose(file);
    if (failed || size > CLI_JSON_FILE_MAX) {
        free(text);
        return failed ? base_error_set(error, BASE_ERR_IO, "%s: cannot read", path)
                      : base_error_set(error, BASE_ERR_TOO_LARGE, "%s: more than %u bytes", path,
                                       CLI_JSON_FILE_MAX);
    }
    *out_text = text;
    *out_size = size;
    return BASE_OK;
}

static enum base_status refuse_text(const char *path, const json_error_t *where,
                                    struct base_error *error)
{
    (void)base_error_set(error, BASE_ERR_INVALID, "%s: line %d, column %d: %s", path, where->line,
                         where->column, where->text);
    if (error != NULL) {
        error->line = where->line > 0 ? (uint32_t)where->line : 0;
        error->column = where->column > 0 ? (uint32_t)where->column : 0;
    }
    return BASE_ERR_INVALID;
}

enum base_status cli_json_load(const char *path, json_t **out_root, struct base_error *error)
{
    char *text = NULL;
    size_t size = 0;
    json_error_t where;

    BASE_TRY(read_text(path, &text, &size, error));
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (root == NULL) {
        return refuse_text(path, &where, error);
    }
    *out_root = root;
    return BASE_OK;
}

enum base_status cli_json_check(const char *path, struct base_str text, struct base_error *error)
{
    json_error_t where;
    json_t *root = json_loadb(text.data, text.size,
                              JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &where);

    if (root == NULL) {
        return refuse_text(path, &where, error);
    }
    json_decref(root);
    return BASE_OK;
}

// Of the call below that refused last; the command has one thread.
static struct cli_json_unknown unknown;

static const char *nearest_name(const char *key, const char *const *names)
{
    struct base_nearest nearest = base_nearest_to(base_str_of(key));
    for (; *names != NULL; ++names) {
        base_nearest_offer(&nearest, *names);
    }
    return nearest.found;
}

enum base_status cli_json_only(const json_t *object, const char *const *names, const char *what,
                               struct base_error *error)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *const *name = names;
        while (*name != NULL && strcmp(*name, key) != 0) {
            name++;
        }
        if (*name == NULL) {
            unknown = (struct cli_json_unknown){.object = object, .key = key, .names = names};
            const char *meant = nearest_name(key, names);
            return base_error_set(error, BASE_ERR_INVALID, "%s: unknown key \"%.40s\"%s%s%s", what,
                                  key, meant != NULL ? ": did you mean \"" : "",
                                  meant != NULL ? meant : "", meant != NULL ? "\"?" : "");
        }
    }
    return BASE_OK;
}

struct cli_json_unknown cli_json_unknown(void)
{
    return unknown;
}

void cli_json_unknown_tell(const char *what)
{
    if (unknown.object == NULL) {
        return;
    }
    const char *meant = nearest_name(unknown.key, unknown.names);
    fprintf(stderr, "walle: %s takes", what);
    if (meant != NULL) {
        fprintf(stderr, " %s", meant);
    }
    for (const char *const *name = unknown.names; *name != NULL; ++name) {
        if (*name != meant) {
            fprintf(stderr, " %s", *name);
        }
    }
    fputc('\n', stderr);
    unknown = (struct cli_json_unknown){.object = NULL};
}

// A problem document (RFC 9457) in words.
static enum cli_exit refuse(const struct cli *cli, long status, const json_t *problem)
{
    const char *title = cli_json_text(problem, "title", cli_json_text(problem, "error", "error"));
    const char *detail = cli_json_text(problem, "detail", "");

    (void)cli_fail(CLI_EXIT_REFUSED, "%s refused (%ld): %s%s%s", cli_http_gateway(cli), status,
                   title, detail[0] != '\0' ? ": " : "", detail);
    if (status == 401) {
        fprintf(stderr,
                "  --token or WALLE_TOKEN takes an operator's token (its text). A gateway's "
                "first one is in its data folder,\n  admin.token; walle finds it by "
                "itself for the same user on the same machine\n");
    }
    if (status == 404 && strstr(detail, "no such task") != NULL) {
        task_hint(cli);
    }
    return CLI_EXIT_REFUSED;
}

enum cli_exit cli_refused(const struct cli *cli, const struct cli_answer *answer)
{
    json_t *problem = answer->body_bytes > 0 ? json_loadb(answer->body, answer->body_bytes,
                                                          JSON_REJECT_DUPLICATES, NULL)
                                             : NULL;
    enum cli_exit code = refuse(cli, answer->status, problem);
    json_decref(problem);
    return code;
}

enum cli_exit cli_api_try(const struct cli *cli, const struct cli_api_request *request,
                          long *out_status, json_t **out_root)
{
    char *text = request->body != NULL ? json_dumps(request->body, JSON_COMPACT) : NULL;
    struct cli_call call = {.method = request->method, .path = request->path};
    struct cli_answer answer = {0};

    if (text != NULL || strcmp(request->method, "POST") == 0) {
        call.content_type = "application/json";
        call.body = text != NULL ? text : "{}";
        call.body_bytes = strlen(call.body);
    }
    enum cli_exit code = cli_http_call(cli, &call, &answer);
    free(text);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    json_t *root = answer.body_bytes > 0
                       ? json_loadb(answer.body, answer.body_bytes, JSON_REJECT_DUPLICATES, NULL)
                       : NULL;
    long status = answer.status;
    cli_answer_done(&answer);
    if (status >= 400 && status != request->expected) {
        code = refuse(cli, status, root);
    } else if (status < 200 || (status >= 300 && status < 400)) {
        code = cli_fail(CLI_EXIT_REFUSED,
                        "%s answered %ld, which a gateway does not: is a proxy "
                        "between that sends elsewhere?",
                        cli_http_gateway(cli), status);
    } else if (root == NULL) { // every answer of a gateway says what was done
        code = cli_fail(CLI_EXIT_REFUSED, "%s answered %ld with something that is not JSON",
                        cli_http_gateway(cli), status);
    }
    if (code == CLI_EXIT_OK && out_root != NULL) {
        *out_root = root;
    } else {
        json_decref(root);
    }
    if (out_status != NULL) {
        *out_status = status;
    }
    return code;
}

enum cli_exit cli_api_call(const struct cli *cli, const char *method, const char *path,
                           const json_t *body, json_t **out_root)
{
    const struct cli_api_request request = {.method = method, .path = path, .body = body};
    return cli_api_try(cli, &request, NULL, out_root);
}

bool cli_path_add(char *out, size_t capacity, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t size = strlen(out);

    for (const char *at = text; *at != '\0'; ++at) {
        unsigned char c = (unsigned char)*at;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (size + 4 > capacity) {
            return false;
        }
        if (plain) {
            out[size++] = (char)c;
        } else {
            out[size++] = '%';
            out[size++] = digits[c >> 4];
            out[size++] = digits[c & 15];
        }
    }
    out[size] = '\0';
    return true;
}

enum cli_exit cli_api_page(const struct cli *cli, const char *path, json_t **out_page)
{
    char full[CLI_PATH_MAX];
    uint64_t limit = 0;
    const struct cli_range range = {1, PAGE_MAX, 100, NULL};
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_LIMIT, &range, &limit);

    if (code != CLI_EXIT_OK) {
        return code;
    }
    (void)snprintf(full, sizeof(full), "%s%climit=%llu", path,
                   strchr(path, '?') != NULL ? '&' : '?', (unsigned long long)limit);
    if (cli_given(cli, CLI_OPTION_AFTER)) {
        size_t size = strlen(full);
        (void)snprintf(full + size, sizeof(full) - size, "&after=");
        if (!cli_path_add(full, sizeof(full), cli->values[CLI_OPTION_AFTER])) {
            return cli_fail(CLI_EXIT_USAGE, "--after: too long");
        }
    }
    return cli_api_call(cli, "GET", full, NULL, out_page);
}

enum cli_exit cli_show_take(enum cli_exit code, json_t *root)
{
    if (code == CLI_EXIT_OK) {
        cli_json_print(root);
    }
    json_decref(root);
    return code;
}

// Who works here: $USER, which services and containers may lack, else as the system knows them.
static const char *own_name(char out[OWN_NAME_MAX])
{
    const char *name = getenv("USER");

    if (name != NULL && name[0] != '\0') {
        return name;
    }
    const struct passwd *entry = getpwuid(getuid()); // one thread
    if (entry != NULL && entry->pw_name[0] != '\0') {
        (void)snprintf(out, OWN_NAME_MAX, "%s", entry->pw_name);
    } else {
        (void)snprintf(out, OWN_NAME_MAX, "uid %u", (unsigned)getuid());
    }
    return out;
}

void cli_add_who(const struct cli *cli, json_t *body)
{
    char own[OWN_NAME_MAX];
    const char *by = cli_given(cli, CLI_OPTION_BY) ? cli->values[CLI_OPTION_BY] : own_name(own);

    if (by[0] != '\0') {
        (void)json_object_set_new(body, "by", json_string(by));
    }
    if (cli_given(cli, CLI_OPTION_REASON)) {
        (void)json_object_set_new(body, "reason", json_string(cli->values[CLI_OPTION_REASON]));
    }
}

void cli_json_print(const json_t *root)
{
    (void)json_dumpf(root, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    putchar('\n');
}

const char *cli_shown(const char *text)
{
    // Shown within one printf, which has no more texts than that; the command has one thread.
    static char copies[SHOWN_COPIES][CLI_SHOWN_MAX];
    static unsigned next;
    struct base_str whole = base_str_of(text != NULL ? text : "");

    if (base_visible_is(whole)) {
        return whole.data;
    }
    char *copy = copies[next++ % SHOWN_COPIES];
    (void)base_visible_text(whole, copy, CLI_SHOWN_MAX);
    return copy;
}

const char *cli_json_text(const json_t *object, const char *key, const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? cli_shown(text) : fallback;
}

uint64_t cli_json_u64(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);

    return number > 0 ? (uint64_t)number : 0;
}
