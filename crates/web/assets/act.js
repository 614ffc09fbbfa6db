// @ts-check
// What a person can do: buttons, the dialog for what bends a rule, and the command that each equals.

import { announce, command, h, toast } from './dom.js';
import { get, isFile, me, post } from './api.js';

/** @typedef {{order: string, label: string, command: string, body: any, needs_reason: boolean, takes?: string, choices?: string[]}} Action */

/** Whether orders are taken here. */
export const speaks = () => me.may.includes('speak') && !isFile();

/** Sends an order and waits until it is taken.
 * @param {string} run @param {any} order @param {string} [name] */
export async function send(run, order, name) {
  try {
    const key = { 'idempotency-key': crypto.randomUUID() };
    const sent = await post(`runs/${run}/orders`, { order, name }, key);
    announce('Sent');
    for (let tries = 0; sent.order !== null && tries < 100; tries += 1) {
      const { taken, reply } = await get(`orders/${sent.order}`);
      if (taken) {
        if (reply.refused) toast(`${reply.refused.message} — ${reply.refused.hint ?? ''}`);
        else announce('Done');
        return !reply.refused;
      }
      await new Promise((done) => { setTimeout(done, 100); });
    }
    return true;
  } catch (error) {
    const { message, hint } = /** @type {any} */ (error);
    toast(hint ? `${message} — ${hint}` : message);
    return false;
  }
}

/** Asks for what an order still needs: a value, a reason, the typed name.
 * @param {string} title @param {{takes?: string, value?: any, needs_reason: boolean, command: string}} what
 * @returns {Promise<{value: string, reason: string, name: string}|null>} */
export function ask(title, what) {
  return new Promise((done) => {
    const value = what.takes === 'value' ? h('textarea', { id: 'ask-value', required: true }) : h('input', { id: 'ask-value', required: true, value: what.value ?? '' });
    const reason = h('textarea', { id: 'ask-reason', required: true });
    const name = h('input', { id: 'ask-name', required: true, autocomplete: 'off' });
    const fault = h('p.bad', { role: 'alert' });
    const close = (/** @type {any} */ result) => { dialog.close(); dialog.remove(); done(result); };
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (what.needs_reason && name.value.trim() !== me.by) {
        fault.textContent = `Type your name as it stands in the journal: ${me.by}`;
        name.focus();
        return;
      }
      close({ value: value.value, reason: reason.value, name: name.value.trim() });
    };
    const dialog = h('dialog', { 'aria-labelledby': 'ask-title', oncancel: () => close(null) },
      h('form', { onsubmit: submit },
        h('h2', { id: 'ask-title' }, title),
        what.takes && [h('label', { for: 'ask-value' }, what.takes === 'value' ? 'Answer' : 'New limit'), value],
        what.needs_reason && [h('label', { for: 'ask-reason' }, 'Why (it stands in the journal)'), reason,
          h('label', { for: 'ask-name' }, `Your name: ${me.by}`), name],
        fault,
        h('div.row', null, h('button.main', { type: 'submit' }, title), h('button', { type: 'button', onclick: () => close(null) }, 'Cancel')),
        h('p', null, command(what.command))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Does one of the things that can be done. @param {string} run @param {Action} action @param {string} [choice] */
export async function act(run, action, choice) {
  const body = { ...action.body };
  if (choice !== undefined) {
    body.value = choice;
    return send(run, body);
  }
  if (!action.needs_reason && !action.takes) return send(run, body);
  const said = await ask(action.label, { takes: action.takes, value: body[action.takes ?? ''], needs_reason: action.needs_reason, command: action.command });
  if (!said) return false;
  if (action.takes === 'value') body.value = said.value;
  if (action.takes === 'limit') body.limit = Number(said.value);
  if (action.needs_reason) body.reason = said.reason;
  return send(run, body, said.name);
}

/** The buttons of what can be done; the first is the one that is meant.
 * @param {string} run @param {Action[]} actions @param {string} key */
export function buttons(run, actions, key) {
  if (!speaks()) return h('div', null, actions.map((one) => h('div', null, command(one.command))));
  const all = actions.filter((one) => one.order !== 'type').flatMap((action, at) => {
    const choices = action.choices ?? [];
    const one = (/** @type {string} */ label, /** @type {string|undefined} */ choice, /** @type {number} */ place) => {
      const words = choice === undefined ? action.command : action.command.replace('VALUE', choice);
      const press = async (/** @type {any} */ event) => {
        const pressed = event.currentTarget;
        pressed.disabled = true;
        await act(run, action, choice);
        pressed.disabled = false;
      };
      return h('button', { class: at === 0 && place === 0 ? 'main' : '', type: 'button', title: words, 'data-key': `${key}-${at}-${place}`, onclick: press }, label);
    };
    return choices.length ? choices.map((choice, place) => one(choice, choice, place)) : [one(action.label, undefined, 0)];
  });
  const words = actions.map((one) => h('li', null, command(one.command)));
  const typed = actions.filter((one) => one.order === 'type').map((one) => h('span.row', null, `${one.label}:`, command(one.command)));
  return h('div', null, h('div.row', null, typed, all),
    h('details', null, h('summary.quiet', null, 'The same as commands'), h('ul', null, words)));
}
