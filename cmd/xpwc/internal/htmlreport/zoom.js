"use strict";
(() => {
	const map = document.getElementById("map");
	if (!map) return;
	const root = map.firstElementChild;
	const crumbs = document.getElementById("crumbs");
	const status = document.getElementById("status");
	const groupOf = (element) => element.closest(".box.g");
	const above = (group) => group === root ? null : groupOf(group.parentElement);
	let here = root;

	const zoom = (group, focus) => {
		for (const box of map.querySelectorAll(".on, .here")) box.classList.remove("on", "here");
		for (const link of map.querySelectorAll("a.label[tabindex='0']")) link.tabIndex = -1;
		const path = [];
		for (let g = group; g; g = above(g)) {
			g.classList.add("on");
			path.unshift(g);
		}
		here = group;
		here.classList.add("here");
		map.classList.toggle("zoomed", here !== root);
		for (const link of here.querySelectorAll(":scope > .in > .g > a.label")) link.tabIndex = 0;
		crumbs.replaceChildren();
		for (const g of path) {
			if (g !== root) crumbs.append(" › ");
			const button = document.createElement("button");
			const name = document.createElement("bdi");
			name.textContent = g.dataset.name;
			button.type = "button";
			button.append(name);
			if (g === here) button.setAttribute("aria-current", "true");
			button.addEventListener("click", () => zoom(g, true));
			crumbs.append(button);
		}
		status.textContent = here.title;
		if (focus) crumbs.lastElementChild.focus({preventScroll: true});
	};

	const into = (target) => {
		let group = groupOf(target);
		if (!group) return;
		const label = target.closest("a.label");
		if (!label) while (group !== here) {
			const next = above(group);
			if (!next || next === here) break;
			group = next;
		}
		if (group === here) status.textContent = target.closest(".box").title;
		else zoom(group, Boolean(label));
	};
	map.addEventListener("click", (event) => {
		if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
		event.preventDefault();
		into(event.target);
	});
	map.addEventListener("keydown", (event) => {
		if (event.key === "Enter" || event.key === " ") {
			event.preventDefault();
			into(event.target);
		}
	});
	document.addEventListener("keydown", (event) => {
		if (event.key !== "Escape" || here === root) return;
		zoom(above(here), map.contains(document.activeElement) || crumbs.contains(document.activeElement));
	});

	map.classList.add("zoomable");
	crumbs.hidden = false;
	for (const element of document.querySelectorAll(".scripted")) element.hidden = false;
	zoom(root, false);
	status.textContent = "";
})();
