document.getElementById("main").textContent = "cloister";
