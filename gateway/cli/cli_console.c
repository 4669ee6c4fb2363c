// The command `walle console open`: a link by which the operator's browser logs in, without a token
// in it. One thread.
//
// The code in the link is good once and for a minute, and stands behind '#', which browsers send to
// nobody. A browser is started with the path of a page that leads on, not with the link: every user
// of a machine sees the words of a command.
#include "cli/base/cli.h"
#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_token.h"

#include "base/os/private_file.h"
#include "base/text/terminal.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_NAME  "open.html"
#define LINK_BYTES (CLI_HTTP_URL_MAX + 128)

extern char **environ;

// A page of this user alone that leads to the link. False: there is none.
static bool write_page(const char *link, char out_path[BASE_STATE_FOLDER_MAX + 16])
{
    char folder[BASE_STATE_FOLDER_MAX];
    int at = -1;
    if (strpbrk(link, "\"<>& '") != NULL ||
        base_private_folder("console", true, &at, folder, NULL) != BASE_OK) {
        return false;
    }
    (void)unlinkat(at, PAGE_NAME, 0);
    int fd = openat(at, PAGE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    close(at);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    fprintf(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", link);
    (void)snprintf(out_path, BASE_STATE_FOLDER_MAX + 16, "%s/" PAGE_NAME, folder);
    return fclose(file) == 0;
}

// Where there is a screen and somebody before it.
static void show_in_browser(const char *link)
{
    char path[BASE_STATE_FOLDER_MAX + 16];
    char program[] = "xdg-open";
    char *const words[] = {program, path, NULL};
    posix_spawn_file_actions_t quiet;
    pid_t child;
    bool screen = getenv("DISPLAY") != NULL || getenv("WAYLAND_DISPLAY") != NULL;
    if (!screen || !base_terminal_is(stdout) || !write_page(link, path) ||
        posix_spawn_file_actions_init(&quiet) != 0) {
        return;
    }
    (void)posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawnp(&child, program, &quiet, NULL, words, environ); // the link is there without
    posix_spawn_file_actions_destroy(&quiet);
}

enum cli_exit cli_console_open(struct cli *cli)
{
    char browse[CLI_HTTP_URL_MAX];
    char link[LINK_BYTES];
    json_t *answer = NULL;
    if (!cli_token_browse(cli, cli_http_gateway(cli), browse)) {
        struct cli_answer seen = {0}; // one that is down is the first thing to know
        struct cli_call call = {.method = "GET", .path = "/api/v1/trust"};
        enum cli_exit there = cli_http_call(cli, &call, &seen);
        cli_answer_done(&seen);
        return there != CLI_EXIT_OK
                   ? there
                   : cli_fail(
                         CLI_EXIT_USAGE,
                         "a browser needs the gateway's TLS address: --gateway https://HOST:PORT");
    }
    json_t *body = json_object();
    enum cli_exit code = cli_api_call(cli, "POST", "/api/v1/console/code", body, &answer);
    json_decref(body);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const char *text = cli_json_text(answer, "code", "");
    (void)snprintf(link, sizeof(link), "%s/#code=%s", browse, text);
    if (cli->json) {
        json_t *shown = json_pack("{s:s, s:O}", "link", link, "expires_in_s",
                                  json_object_get(answer, "expires_in_s"));
        json_decref(answer);
        return cli_show_take(CLI_EXIT_OK, shown);
    }
    fprintf(stderr, "good once, for %llu s\n",
            (unsigned long long)cli_json_u64(answer, "expires_in_s"));
    printf("%s\n", link);
    json_decref(answer);
    if (!cli_given(cli, CLI_OPTION_NO_OPEN)) {
        (void)fflush(stdout);
        show_in_browser(link);
    }
    return CLI_EXIT_OK;
}
