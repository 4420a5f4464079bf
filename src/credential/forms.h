/* forms.h - the catalogue of forms of credentials that both the vault mints and the scanner finds.
 *
 * A form is two texts: the mark that begins it, which the scanner searches for, and the shape of the
 * rest (credential/shape.h).  Forms that only one of them knows are in its own table. */
#ifndef CLOISTER_FORMS_H
#define CLOISTER_FORMS_H

/* FORM(GROQ) is "'gsk_{w52}'": a form as one shape, in quotes, as files of secrets have it. */
#define FORM(name) FORM_TEXT(FORM_##name)
#define FORM_TEXT(...) FORM_JOIN(__VA_ARGS__)
#define FORM_JOIN(mark, tail) "'" mark tail "'"

#define FORM_GITHUB_CLASSIC     "ghp_", "{w30}{crc62}"
#define FORM_GITHUB_OAUTH       "gho_", "{w30}{crc62}"
#define FORM_GITHUB_USER        "ghu_", "{w30}{crc62}"
#define FORM_GITHUB_APP         "ghs_", "{w30}{crc62}"
#define FORM_GITHUB_FINE        "github_pat_", "{w22}_{w59}"
#define FORM_GITLAB             "glpat-", "{u20+}"
#define FORM_NPM                "npm_", "{w30}{crc62}"
#define FORM_PYPI               "pypi-AgEIcHlwaS5vcmc", "{u50+}"
#define FORM_PYPI_TEST          "pypi-AgENdGVzdC5weXBpLm9yZ", "{u50+}"
#define FORM_RUBYGEMS           "rubygems_", "{h48}"
#define FORM_CRATES             "cio", "{w32}"
#define FORM_DOCKER             "dckr_pat_", "{u27}"
#define FORM_DOCKER_ORG         "dckr_oat_", "{u32}"
#define FORM_GOOGLE             "AIza", "{u35}"
#define FORM_DIGITALOCEAN       "dop_v1_", "{h64}"
#define FORM_DIGITALOCEAN_OAUTH "doo_v1_", "{h64}"
#define FORM_SUPABASE           "sbp_", "{h40}"
#define FORM_ANTHROPIC          "sk-ant-", "{a3-8}-{u80+}"
#define FORM_OPENROUTER         "sk-or-v1-", "{h64}"
#define FORM_PLAIN_SK           "sk-", "{h32}"
#define FORM_GROQ               "gsk_", "{w52}"
#define FORM_XAI                "xai-", "{w80}"
#define FORM_PERPLEXITY         "pplx-", "{w40-64}"
#define FORM_REPLICATE          "r8_", "{w37}"
#define FORM_CEREBRAS           "csk-", "{a48}"
#define FORM_NVIDIA             "nvapi-", "{u64}"
#define FORM_ELEVENLABS         "sk_", "{h48}"
#define FORM_TAVILY             "tvly-", "{u32+}"
#define FORM_FIRECRAWL          "fc-", "{h32}"
#define FORM_HUGGINGFACE        "hf_", "{w34-40}"
#define FORM_SLACK_APP          "xapp-", "{d1}-{A9-13}-{d9-14}-{h64}"
#define FORM_SENDGRID           "SG.", "{u22}.{u43}"
#define FORM_STRIPE             "sk_live_", "{w24+}"
#define FORM_STRIPE_RESTRICTED  "rk_live_", "{w24+}"
#define FORM_LINEAR             "lin_api_", "{w40}"
#define FORM_NOTION             "ntn_", "{w46}"
#define FORM_NOTION_OLD         "secret_", "{w43}"
#endif
