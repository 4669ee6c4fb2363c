// Choosing a call's token. Called by cli_http.c, on the one thread there is; cli_console.c asks
// where a browser finds the gateway. A token that was found by a note of a gateway on this machine
// is sent to the address in that note alone, and the note is looked at again when the connection is
// there: another process could have taken the port meanwhile.
#include "cli/base/cli_token.h"

#include <curl/curl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Host, port and scheme as libcurl will read them; none with a user name in front.
static bool split(const struct cli *cli, CURLU *parts, const char *url, char **out_host,
                  struct base_gateway_target *out)
{
    char *port = NULL;
    char *scheme = NULL;
    char *user = NULL;
    uint64_t number = 0;
    bool ok = curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(parts, CURLUPART_HOST, out_host, 0) == CURLUE_OK &&
              curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl_url_get(parts, CURLUPART_USER, &user, 0) != CURLUE_OK &&
              base_str_u64(base_str_of(port), &number) == BASE_OK && number <= UINT16_MAX;
    if (ok) {
        *out = (struct base_gateway_target){.host = base_str_of(*out_host),
                                            .port = (uint16_t)number,
                                            .sealed = strcmp(scheme, "https") == 0 &&
                                                      !cli_given(cli, CLI_OPTION_INSECURE)};
    }
    curl_free(port);
    curl_free(scheme);
    curl_free(user);
    return ok;
}

static enum base_status find(const struct cli *cli, const char *url, struct base_gateway_found *out,
                             struct base_error *error)
{
    CURLU *parts = curl_url();
    char *host = NULL;
    struct base_gateway_target target;
    enum base_status status = BASE_ERR_NOT_FOUND;
    if (parts != NULL && split(cli, parts, url, &host, &target)) {
        status = base_gateway_note_find(&target, out, error);
    }
    curl_free(host);
    curl_url_cleanup(parts);
    return status;
}

void cli_token_choose(const struct cli *cli, const char *url, struct cli_token *out)
{
    static bool said;
    struct base_error error = {0};
    const char *given = cli->values[CLI_OPTION_TOKEN];
    given = given != NULL ? given : getenv("WALLE_TOKEN");
    out->found = false;
    out->text = given != NULL && given[0] != '\0' ? given : NULL;
    if (given != NULL) {
        return;
    }
    enum base_status status = find(cli, url, &out->note, &error);
    if (status == BASE_OK) {
        out->found = true;
        out->text = out->note.token;
    } else if (status != BASE_ERR_NOT_FOUND && !said) {
        said = true;
        (void)cli_fail(CLI_EXIT_OK, "the gateway's own token is not used: %s", error.text);
    }
}

bool cli_token_holds(const struct cli *cli, const char *url, const struct cli_token *token)
{
    struct base_gateway_found now;
    return !token->found ||
           (find(cli, url, &now, NULL) == BASE_OK && strcmp(now.token, token->note.token) == 0 &&
            strcmp(now.address, token->note.address) == 0);
}

bool cli_token_browse(const struct cli *cli, const char *url, char out[CLI_HTTP_URL_MAX])
{
    struct base_gateway_found found = {.tls_address = ""};
    size_t size = strlen(url);
    if (strncmp(url, "https://", 8) == 0) {
        while (size > 0 && url[size - 1] == '/') {
            size--;
        }
        return snprintf(out, CLI_HTTP_URL_MAX, "%.*s", (int)size, url) < CLI_HTTP_URL_MAX;
    }
    if (find(cli, url, &found, NULL) != BASE_OK || found.tls_address[0] == '\0') {
        return false;
    }
    const char *port = strrchr(found.tls_address, ':');
    bool any_v4 = strncmp(found.tls_address, "0.0.0.0:", 8) == 0;
    bool any_v6 = strncmp(found.tls_address, "[::]:", 5) == 0;
    (void)snprintf(out, CLI_HTTP_URL_MAX, "https://%s%s",
                   any_v4   ? "127.0.0.1"
                   : any_v6 ? "[::1]"
                            : found.tls_address,
                   any_v4 || any_v6 ? port : "");
    return true;
}
