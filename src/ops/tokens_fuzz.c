/*
 * Goal: no tokens file can crash the reader, and what it accepts is consistent: names that are
 * valid, limits and tokens of tenants that are there. Method: any bytes as a file.
 */
#include "base/check.h"
#include "ops/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {(const char *)data, size};
    struct tokens *tokens;
    struct error error;

    if (tokens_parse(text, "fuzz", &tokens, &error)) {
        CHECK(error.text[0] && strlen(error.text) < sizeof(error.text));
        return 0;
    }
    CHECK(tokens->count > 0 && tokens->count <= TOKENS_MAX);
    for (size_t i = 0; i < tokens->count; i++) {
        const struct token *token = &tokens->tokens[i];

        CHECK(token->tenant < tokens->tenant_count && token->scopes);
        CHECK(!(token->scopes &
                ~(unsigned)(TOKEN_SCOPE_SCHEDULE | TOKEN_SCOPE_READ | TOKEN_SCOPE_ADMIN)));
    }
    for (size_t i = 0; i < tokens->tenant_count; i++) {
        const struct token_tenant *tenant = &tokens->tenants[i];

        CHECK(!tenant->name_size || tenant_is_valid(token_tenant_name(tenant)));
        CHECK(tenant->has_token && (tenant->name_size || !tenant->limits.pending_max));
        CHECK(tenant->limits.rate <= 1000000 && tenant->limits.burst <= 1000000);
        CHECK(tenant->limits.rate || !tenant->limits.burst);
    }
    CHECK(!tokens_find(tokens, text));
    tokens_free(tokens);
    return 0;
}
