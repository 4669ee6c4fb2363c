// The values of options: what each word has to be, and where it goes. Each function returns 0, or
// EINVAL with the option's name, the word and what is wrong with it in the parser's error.
#ifndef SIM_OPTION_WORDS_H
#define SIM_OPTION_WORDS_H

#include "base/error.h"
#include "command/option_checks.h"
#include "run/fleet.h"

#include <argp.h>

struct sim_parse {
    struct sim_options *out;
    struct base_error *error;
    const char *task;
    struct sim_words words;
};

struct sim_range {
    uint64_t min;
    uint64_t max;
};

// Where an address goes.
struct sim_url_place {
    char *host; // SIM_TEXT_MAX
    uint16_t *port;
    bool *tls;
};

// The command line, quoted where a shell needs it, into `out`.
void sim_take_command(int argc, char **argv, struct sim_options *out);
error_t sim_option_refuse(struct sim_parse *parse, const char *option, const char *value,
                          const char *what);
error_t sim_take_text(struct sim_parse *parse, const char *option, const char *value,
                      char out[SIM_TEXT_MAX]);
error_t sim_take_number(struct sim_parse *parse, const char *option, const char *value,
                        struct sim_range range, uint64_t *out);
error_t sim_take_u32(struct sim_parse *parse, const char *option, const char *value,
                     struct sim_range range, uint32_t *out);
error_t sim_take_share(struct sim_parse *parse, const char *option, const char *value,
                       uint32_t *out);
error_t sim_take_id(struct sim_parse *parse, const char *option, const char *value, uint64_t *out);
error_t sim_take_url(struct sim_parse *parse, const char *option, const char *value,
                     struct sim_url_place out);
error_t sim_take_rule(struct sim_parse *parse, const char *value);
error_t sim_take_fault(struct sim_parse *parse, const char *value);
error_t sim_take_act(struct sim_parse *parse, const char *value);
error_t sim_take_where(struct sim_parse *parse, const char *value);
error_t sim_take_target(struct sim_parse *parse, const char *value);
error_t sim_take_rate(struct sim_parse *parse, const char *value);
error_t sim_take_arrivals(struct sim_parse *parse, const char *value);
error_t sim_take_links(struct sim_parse *parse, const char *value);
error_t sim_take_presence(struct sim_parse *parse, const char *value);
error_t sim_take_business(struct sim_parse *parse, const char *value);
error_t sim_take_port(struct sim_parse *parse, const char *value);
error_t sim_take_key(struct sim_parse *parse, const char *value);
error_t sim_take_root(struct sim_parse *parse, const char *path);
error_t sim_take_token(struct sim_parse *parse, const char *option, const char *path, char *token);
// The token that a gateway of this user on this machine left word of, to watch with.
void sim_find_token(struct sim_options *options);
error_t sim_take_metrics(struct sim_parse *parse, const char *value);
error_t sim_take_trace(struct sim_parse *parse, const char *value);
error_t sim_take_threshold(struct sim_parse *parse, const char *value);
error_t sim_take_bad_version(struct sim_parse *parse, const char *value);

#endif
