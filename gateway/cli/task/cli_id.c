// Asks the gateway which ids begin as somebody typed. Called by cli_main.c before a command runs,
// so that each command sees whole ids, and by rollout_begin.c; one thread. A command that takes
// something away needs CLI_ID_DESTRUCTIVE_MIN digits at least. A prefix that several ids have is
// refused with their names.
#include "cli/task/cli_id.h"

#include "cli/base/cli_json.h"
#include "cli/task/rollout_version.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MAX 5 // of several that begin so

static const struct {
    const char *group;    // of commands
    const char *argument; // as they call it
    const char *list;
    const char *key;
    const char *word;
    size_t digits;
} kinds[CLI_ID_KIND_COUNT] = {
    [CLI_ID_ROLLOUT] = {"rollout", "ID", "rollouts", "id", "rollout", 16},
    [CLI_ID_DEVICE] = {"device", "ID", "devices", "id", "device", 16},
    [CLI_ID_TOKEN] = {"token", "ID", "tokens", "id", "token", 16},
    [CLI_ID_KILL] = {"release", "SHA256", "kills", "manifest", "killed version", 64},
};

bool cli_id_is_prefix(const char *text, enum cli_id_kind kind)
{
    size_t size = strlen(text);

    return size > 0 && size < kinds[kind].digits && strspn(text, "0123456789abcdef") == size;
}

// The name before the first one that begins so. False: there is none.
static bool name_before(const char *text, size_t digits, char out[CLI_ID_MAX + 1])
{
    size_t at = strlen(text);

    memset(out, 'f', digits);
    memcpy(out, text, at);
    out[digits] = '\0';
    while (at > 0 && out[at - 1] == '0') {
        out[--at] = 'f';
    }
    if (at == 0) {
        return false;
    }
    out[at - 1] = out[at - 1] == 'a' ? '9' : (char)(out[at - 1] - 1);
    return true;
}

// Lists are by id, but that of rollouts, which is asked for the beginning instead.
static void list_path(enum cli_id_kind kind, const char *text, char out[CLI_PATH_MAX])
{
    char before[CLI_ID_MAX + 1];
    int size = snprintf(out, CLI_PATH_MAX, "/api/v1/%s?limit=%d", kinds[kind].list, NAMED_MAX + 1);
    size_t used = (size_t)size;

    if (kind == CLI_ID_ROLLOUT) {
        (void)snprintf(out + used, CLI_PATH_MAX - used, "&id=%s", text);
    } else if (name_before(text, kinds[kind].digits, before)) {
        (void)snprintf(out + used, CLI_PATH_MAX - used, "&after=%s", before);
    }
}

static enum cli_exit several(enum cli_id_kind kind, const char *text, const json_t *items,
                             uint32_t count)
{
    char list[NAMED_MAX * (CLI_ID_MAX + 2) + 8] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < count && i < NAMED_MAX; ++i) {
        const char *id = cli_json_text(json_array_get(items, i), kinds[kind].key, "");
        int size = snprintf(list + used, sizeof(list) - used, "%s%.64s", i > 0 ? ", " : "", id);
        used += size > 0 ? (size_t)size : 0;
    }
    return cli_fail(CLI_EXIT_USAGE, "several %ss begin with %s: %s%s", kinds[kind].word, text, list,
                    count > NAMED_MAX ? " ..." : "");
}

enum cli_exit cli_id_whole(const struct cli *cli, enum cli_id_kind kind, const char *text,
                           char out[CLI_ID_MAX + 1])
{
    char path[CLI_PATH_MAX];
    json_t *page = NULL;
    size_t index;
    json_t *item;
    uint32_t count = 0;

    list_path(kind, text, path);
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &page);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const json_t *items = json_object_get(page, "items");
    json_array_foreach((json_t *)(uintptr_t)items, index, item)
    {
        const char *id = cli_json_text(item, kinds[kind].key, "");
        count += strncmp(id, text, strlen(text)) == 0 ? 1 : 0; // they come first
    }
    if (count == 1) {
        const char *id = cli_json_text(json_array_get(items, 0), kinds[kind].key, "");
        (void)snprintf(out, CLI_ID_MAX + 1, "%.64s", id);
    } else {
        code = count == 0
                   ? cli_fail(CLI_EXIT_REFUSED, "no %s begins with %s", kinds[kind].word, text)
                   : several(kind, text, items, count);
    }
    json_decref(page);
    return code;
}

static enum cli_exit make_whole(const struct cli *cli, enum cli_id_kind kind, bool fresh,
                                const char **text)
{
    static char ids[CLI_ARGS_MAX][CLI_ID_MAX + 1];
    static uint32_t used;

    size_t digits = strspn(*text, "0123456789abcdef");

    if (digits == 0 || (*text)[digits] != '\0' || digits > kinds[kind].digits) {
        const char *word = fresh ? "version" : kinds[kind].word;
        const char *list = fresh ? "task get TASK" : kind == CLI_ID_KILL ? "release kills" : NULL;
        return cli_fail(CLI_EXIT_USAGE,
                        "'%s' names no %s: that takes %zu lower-case hex digits, or enough of the "
                        "first ones (walle %s%s)",
                        *text, word, kinds[kind].digits, list != NULL ? list : kinds[kind].group,
                        list != NULL ? "" : " list");
    }
    if (!cli_id_is_prefix(*text, kind) || used == CLI_ARGS_MAX) {
        return CLI_EXIT_OK;
    }
    // What is killed need not be on the list yet: it is one of the versions.
    enum cli_exit code = fresh ? rollout_version_of_prefix(cli, *text, ids[used])
                               : cli_id_whole(cli, kind, *text, ids[used]);
    *text = code == CLI_EXIT_OK ? ids[used++] : *text;
    return code;
}

// What it takes away comes back by no other command, or not to everybody.
static bool is_destructive(const struct cli_command *command)
{
    return command->run == cli_rollout_kill || command->run == cli_rollout_undo ||
           command->run == cli_rollout_abort || command->run == cli_device_revoke ||
           command->run == cli_device_reset || command->run == cli_token_revoke ||
           command->run == cli_release_kill;
}

static enum cli_exit check_digits(const struct cli_command *command, enum cli_id_kind kind,
                                  const char *text)
{
    if (!cli_id_is_prefix(text, kind) || strlen(text) >= CLI_ID_DESTRUCTIVE_MIN ||
        !is_destructive(command)) {
        return CLI_EXIT_OK;
    }
    return cli_fail(CLI_EXIT_USAGE,
                    "%s %s wants the whole id, or at least the first %u digits of it: %s is %zu",
                    command->group, command->name, CLI_ID_DESTRUCTIVE_MIN, text, strlen(text));
}

enum cli_exit cli_id_resolve(struct cli *cli, const struct cli_command *command)
{
    enum cli_exit code = CLI_EXIT_OK;

    for (int i = 0; i < CLI_ID_KIND_COUNT && code == CLI_EXIT_OK; ++i) {
        bool named = strcmp(command->group, kinds[i].group) == 0 &&
                     strcmp(command->arguments, kinds[i].argument) == 0;
        bool fresh = i == CLI_ID_KILL && command->run == cli_release_kill;
        if (named && cli->arg_count > 0) {
            code = check_digits(command, (enum cli_id_kind)i, cli->args[0]);
            code = code == CLI_EXIT_OK ? make_whole(cli, (enum cli_id_kind)i, fresh, &cli->args[0])
                                       : code;
        }
    }
    if (code == CLI_EXIT_OK && strcmp(command->group, "tunnel") == 0 &&
        cli_given(cli, CLI_OPTION_DEVICE)) {
        code = make_whole(cli, CLI_ID_DEVICE, false, &cli->values[CLI_OPTION_DEVICE]);
    }
    return code;
}
