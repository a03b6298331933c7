// Signing in, with what kubectl would use.
import { h, put } from "./dom.js";
import { post } from "./store.js";

export function login(root, started) {
  const token = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const certificate = h("textarea", { id: "certificate", rows: "4", spellcheck: "false", placeholder: "-----BEGIN CERTIFICATE-----" });
  const key = h("textarea", { id: "key", rows: "4", spellcheck: "false", autocomplete: "off", placeholder: "-----BEGIN PRIVATE KEY-----" });
  const namespaces = h("input", { type: "text", id: "namespaces", spellcheck: "false", "aria-describedby": "namespaces-help" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const byToken = h("div", {}, h("label", { for: "token" }, "Token"), token);
  const byCertificate = h("div", { hidden: true },
    h("label", { for: "certificate" }, "Client certificate (PEM)"), certificate, h("label", { for: "key" }, "Its key (PEM)"), key);
  const other = h("button", { type: "button", class: "link", onclick: swap }, "Use a client certificate instead");
  const button = h("button", { class: "primary" }, "Sign in");

  function swap() {
    const toToken = !byCertificate.hidden;
    byToken.hidden = !toToken;
    byCertificate.hidden = toToken;
    token.required = toToken;
    put(other, toToken ? "Use a client certificate instead" : "Use a token instead");
    (toToken ? token : certificate).focus();
  }

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    put(wrong);
    const names = namespaces.value.split(/[\s,]+/).filter(Boolean);
    const who = byToken.hidden ? { certificate: certificate.value, key: key.value } : { token: token.value };
    try {
      const session = await post("/api/login", { ...who, namespaces: names });
      token.value = key.value = "";
      started(session);
    } catch (error) {
      put(wrong, error.message);
      (byToken.hidden ? certificate : token).focus();
    } finally {
      button.disabled = false;
    }
  }

  put(root, h("form", { class: "login", onsubmit: submit },
    h("h1", {}, "Sign in"),
    h("p", {}, "You see and steer here what the hub lets you, with your own rights and under your own name."),
    byToken, byCertificate, other,
    h("label", { for: "namespaces" }, "Namespaces"), namespaces,
    h("p", { class: "help", id: "namespaces-help" }, "Only needed if you may look into some namespaces and not list all of them."),
    wrong, button));
  token.focus();
  return {};
}
