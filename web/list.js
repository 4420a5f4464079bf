// list.js - a list of any length of which only what is in view is in the document.
//
// The window scrolls.  Rows have one height, the CSS variable --row; they are known by their keys,
// so that a row that stays in view stays the same element.

const BEYOND = 8;                       // rows that are kept ready above and below

export class List {
	// MAKE(key) gives a row's element, FILL(element, item) brings it up to date, KEY(item) tells
	// the items apart; OPEN(item) is what Enter does; NEAR_END() is called when the last are in view.
	constructor({ label, columns, make, fill, key, open, nearEnd }) {
		Object.assign(this, { make, fill, key, open, nearEnd });
		this.items = [];
		this.rows = new Map();
		this.chosen = null;
		this.element = document.createElement("div");
		this.element.className = "list";
		this.element.setAttribute("role", "grid");
		this.element.setAttribute("aria-label", label);
		this.element.tabIndex = 0;
		this.head = document.createElement("div");
		this.head.className = "list-head";
		this.head.setAttribute("role", "row");
		this.head.setAttribute("aria-rowindex", "1");
		for (const column of columns) {
			const cell = column instanceof Node ? column : document.createElement("span");
			if (!(column instanceof Node))
				cell.textContent = column;
			cell.setAttribute("role", "columnheader");
			this.head.append(cell);
		}
		this.body = document.createElement("div");
		this.body.className = "list-body";
		this.body.setAttribute("role", "rowgroup");
		this.element.append(this.head, this.body);
		this.prefix = `row-${Math.random().toString(36).slice(2, 8)}-`;
		this.soon = () => {
			if (!this.frame)
				this.frame = requestAnimationFrame(() => {
					this.frame = 0;
					this.render();
				});
		};
		addEventListener("scroll", this.soon, { passive: true });
		addEventListener("resize", this.soon, { passive: true });
		this.element.addEventListener("keydown", event => this.typed(event));
		this.body.addEventListener("click", event => {
			const row = event.target.closest("[data-key]");
			if (row && !event.target.closest("a, button, input"))
				this.choose(this.indexOf(row.dataset.key), true);
		});
	}

	close() {
		removeEventListener("scroll", this.soon);
		removeEventListener("resize", this.soon);
		cancelAnimationFrame(this.frame);
	}

	set(items) {
		this.items = items;
		this.element.setAttribute("aria-rowcount", String(items.length + 1));
		this.render(true);
	}

	// Only these rows have changed, none came or went.
	update(keys) {
		for (const key of keys) {
			const row = this.rows.get(key);
			const item = row && this.items[row.index];
			if (item)
				this.fill(row.element, item);
		}
	}

	height() {
		return Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 40;
	}

	render(all = false) {
		const height = this.height();
		const top = this.body.getBoundingClientRect().top;
		const first = Math.max(0, Math.floor(-top / height) - BEYOND);
		const last = Math.min(this.items.length, Math.max(first + BEYOND, Math.ceil((innerHeight - top) / height) + BEYOND));
		const wanted = `${this.items.length * height}px`;
		if (this.body.style.height !== wanted)
			this.body.style.height = wanted;
		const stay = new Map();
		for (let i = first; i < last; i++)
			this.place(i, height, all, stay);
		for (const [key, row] of this.rows)
			if (!stay.has(key))
				row.element.remove();
		this.rows = stay;
		if (last >= this.items.length - BEYOND)
			this.nearEnd?.();
	}

	place(i, height, all, stay) {
		const item = this.items[i], key = this.key(item);
		let row = this.rows.get(key);
		if (!row) {
			row = { element: this.make(item), index: -1 };
			row.element.id = this.prefix + key;
			row.element.dataset.key = key;
			row.element.setAttribute("role", "row");
			this.body.append(row.element);
			this.fill(row.element, item);
		} else if (all) {
			this.fill(row.element, item);
		}
		if (row.index !== i || row.height !== height) {
			row.index = i;
			row.height = height;
			row.element.style.transform = `translateY(${i * height}px)`;
			row.element.setAttribute("aria-rowindex", String(i + 2));
		}
		const isChosen = key === this.chosen;
		if (row.element.classList.contains("chosen") !== isChosen) {
			row.element.classList.toggle("chosen", isChosen);
			row.element.setAttribute("aria-selected", String(isChosen));
		}
		stay.set(key, row);
	}

	indexOf(key) {
		return this.items.findIndex(item => this.key(item) === key);
	}

	current() {
		const index = this.chosen === null ? -1 : this.indexOf(this.chosen);
		return index < 0 ? null : this.items[index];
	}

	choose(index, open = false) {
		if (this.items.length === 0)
			return;
		const at = Math.max(0, Math.min(this.items.length - 1, index));
		this.chosen = this.key(this.items[at]);
		const height = this.height();
		const top = this.body.getBoundingClientRect().top + at * height;
		const under = (document.querySelector("header")?.getBoundingClientRect().bottom ?? 0) + this.head.offsetHeight;
		if (top < under)
			scrollBy(0, top - under - height);
		else if (top + height > innerHeight)
			scrollBy(0, top + 2 * height - innerHeight);
		this.render();
		this.element.setAttribute("aria-activedescendant", this.prefix + this.chosen);
		if (open)
			this.open?.(this.items[at]);
	}

	move(by) {
		const at = this.chosen === null ? -1 : this.indexOf(this.chosen);
		this.choose(at < 0 ? (by > 1 ? by - 1 : 0) : at + by);
	}

	typed(event) {
		if (event.target !== this.element || event.ctrlKey || event.altKey || event.metaKey)
			return;
		const page = Math.max(1, Math.floor(innerHeight / this.height()) - 3);
		const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
			Home: -this.items.length, End: this.items.length };
		if (event.key in moves)
			this.move(moves[event.key]);
		else if (event.key === "Enter" && this.current())
			this.open?.(this.current());
		else
			return;
		event.preventDefault();
	}
}
