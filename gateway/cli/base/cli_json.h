// JSON of the command: reading files and answers with exact errors, and calls of the operator API.
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "base/error.h"
#include "cli/base/cli.h"
#include "cli/base/cli_http.h"
#include "wire/digest.h"

#include <jansson.h>

#define CLI_SHOWN_MAX 2048 // bytes of a text with something to escape

#define CLI_JSON_FILE_MAX (1024u * 1024)
#define CLI_PATH_MAX      1024

// Seeds jansson's hash tables; once, before anything is parsed.
void cli_json_seed(void);

// Reads a JSON file (doubled keys are refused). IO, TOO_LARGE, INVALID; `error` says what and
// where. The caller owns *out_root.
BASE_NODISCARD enum base_status cli_json_load(const char *path, json_t **out_root,
                                              struct base_error *error);
// Is what was read of the file JSON, of any kind and with numbers of any size? INVALID; `error`
// says where it is not.
BASE_NODISCARD enum base_status cli_json_check(const char *path, struct base_str text,
                                               struct base_error *error);
// Every key of `object` must be among `names` (NULL ends the list): INVALID names the first that is
// not, and what was probably meant by it.
BASE_NODISCARD enum base_status cli_json_only(const json_t *object, const char *const *names,
                                              const char *what, struct base_error *error);
// What the last call of it refused, for whoever knows the file it is in. `object` is borrowed from
// that call, and NULL where there was none.
struct cli_json_unknown {
    const json_t *object;
    const char *key;
    const char *const *names;
};
struct cli_json_unknown cli_json_unknown(void);
// Says on standard error which keys the object of that call takes, the likeliest first; it is
// forgotten then.
void cli_json_unknown_tell(const char *what);

// One call of the operator API. `body` may be NULL; it is not taken. On an answer below 400
// *out_root is its JSON (NULL for an empty body), owned by the caller; out_root may be NULL. Above,
// the problem is said on standard error and REFUSED returned.
enum cli_exit cli_api_call(const struct cli *cli, const char *method, const char *path,
                           const json_t *body, json_t **out_root);
struct cli_api_request {
    const char *method;
    const char *path;
    const json_t *body;
    long expected;
};
// As above, but an answer with status `expected` is handed over as well; *out_status tells.
enum cli_exit cli_api_try(const struct cli *cli, const struct cli_api_request *request,
                          long *out_status, json_t **out_root);

// Says on standard error what an answer of 400 or above refuses, as the calls above do. REFUSED.
enum cli_exit cli_refused(const struct cli *cli, const struct cli_answer *answer);

// Appends `text` percent-encoded (all but unreserved characters, '/' included) to `out`. False when
// it does not fit.
bool cli_path_add(char *out, size_t capacity, const char *text);

// GET of a list, which may have parameters already, with the command's --limit and --after.
enum cli_exit cli_api_page(const struct cli *cli, const char *path, json_t **out_page);

// Prints `root` as JSON when `code` is OK; takes it (NULL allowed); returns `code`.
enum cli_exit cli_show_take(enum cli_exit code, json_t *root);
// Adds "by" (--by, or USER) and "reason" (--reason) to a request's body.
void cli_add_who(const struct cli *cli, json_t *body);

// Prints JSON with two-space indent and a newline.
void cli_json_print(const json_t *root);
// A text of an answer as it may stand in a line (base/visible.h): itself, or a copy that the eighth
// call after this one overwrites, cut at CLI_SHOWN_MAX bytes. NULL is "".
const char *cli_shown(const char *text);
// Member as cli_shown, or `fallback`; borrowed.
const char *cli_json_text(const json_t *object, const char *key, const char *fallback);
uint64_t cli_json_u64(const json_t *object, const char *key);

#endif
