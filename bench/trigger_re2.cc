// RE2 behind four C functions: the peer of bench/trigger_worker.c. A set of expressions, asked for
// each event over the encoded events of a session. C++ because RE2 is.
#include <re2/re2.h>
#include <re2/set.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace
{
struct Peer {
    RE2::Set set;
    std::vector<int> matches;
    explicit Peer(const RE2::Options &options) : set(options, RE2::UNANCHORED)
    {
    }
};
} // namespace

extern "C" {

void *bench_re2_new(size_t memory_bytes)
{
    RE2::Options options;
    options.set_max_mem(static_cast<int64_t>(memory_bytes));
    options.set_encoding(RE2::Options::EncodingLatin1);
    options.set_dot_nl(true);
    options.set_log_errors(false);
    return new Peer(options);
}

bool bench_re2_add(void *peer, const char *pattern)
{
    std::string error;
    return static_cast<Peer *>(peer)->set.Add(pattern, &error) >= 0;
}

bool bench_re2_compile(void *peer)
{
    return static_cast<Peer *>(peer)->set.Compile();
}

// The number of expressions that match, and which; -1: RE2 ran out of memory for its automaton.
int bench_re2_match(void *peer, const char *text, size_t size, const int **out)
{
    Peer *self = static_cast<Peer *>(peer);
    RE2::Set::ErrorInfo error{};
    self->matches.clear();
    bool found = self->set.Match(re2::StringPiece(text, size), &self->matches, &error);
    *out = self->matches.data();
    if (!found && error.kind != RE2::Set::kNoError) {
        return -1;
    }
    return static_cast<int>(self->matches.size());
}

void bench_re2_free(void *peer)
{
    delete static_cast<Peer *>(peer);
}
}
