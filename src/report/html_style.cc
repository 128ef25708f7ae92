#include "report/html.h"

namespace antiphon::report::internal {

// NOLINTNEXTLINE(readability-function-size): one style sheet
std::string_view PageStyle() {
  return R"css(
:root{--bg:#f5f6f8;--card:#fff;--ink:#1b2430;--soft:#5d6b7c;--line:#e3e7ec;--grid:#edf0f4;--accent:#2563c9;
--s0:#2563c9;--s1:#e4742b;--s2:#1f9d76;--s3:#b0449e;--s4:#8a7a12;--s5:#5a6b86;--s6:#d13f5a;--s7:#0f8fb3;
--bad:#c9302c;--good:#1a7f4b;--warnbg:#fff4e0;--warnline:#e9a23b;
  --shadow:0 1px 2px rgba(20,30,50,.06),0 2px 10px rgba(20,30,50,.05)}
@media (prefers-color-scheme:dark){:root{--bg:#11151b;--card:#1a2029;--ink:#e6ebf2;--soft:#95a3b5;
  --line:#2b3441;--grid:#262e3a;
--accent:#6aa5ff;--s0:#6aa5ff;--s1:#f5955a;--s2:#4ecba0;--s3:#d98acb;--s4:#cdbb4e;--s5:#9fb0ca;--s6:#f0788f;
  --s7:#4fc3e0;
--bad:#ff7b72;--good:#5cd693;--warnbg:#33270f;--warnline:#b98025;--shadow:none}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
-webkit-font-smoothing:antialiased}
header,main{max-width:1180px;margin:0 auto;padding:0 24px}
header{padding-top:36px;padding-bottom:8px}
h1{font-size:27px;line-height:1.2;margin:0;letter-spacing:-.01em}
header p{margin:6px 0 0;color:var(--soft)}
main{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:18px;padding-bottom:60px}
h2{grid-column:1/-1;font-size:18px;margin:22px 0 0;letter-spacing:-.005em}
h3{font-size:14px;font-weight:600;margin:0 0 8px}
.wide,.figures{grid-column:1/-1}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px;
  box-shadow:var(--shadow);min-width:0;container-type:inline-size}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:14px;margin-top:14px}
.figure{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px;
  box-shadow:var(--shadow)}
.label{font-size:12.5px;color:var(--soft)}
.value{font-size:26px;font-weight:650;letter-spacing:-.02em;line-height:1.25;font-variant-numeric:tabular-nums}
.remark{font-size:12.5px;color:var(--soft);min-height:1.3em}
p.wide{margin:0}
.note{font-size:13px;color:var(--soft);margin:8px 0 0}
.warning{background:var(--warnbg);border:1px solid var(--warnline);border-radius:10px;padding:10px 14px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
  fill:var(--soft);font-variant-numeric:tabular-nums}
.grid{stroke:var(--grid);stroke-width:1}
.axis{stroke:var(--line);stroke-width:1}
.curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12.5px;color:var(--soft);margin-bottom:6px}
.legend i{display:inline-block;width:18px;height:0;border-top:3px solid;border-radius:2px;vertical-align:middle;
  margin-right:6px}
.legend i.dash{border-top-style:dashed;border-radius:0}
.legend i.box{height:11px;width:11px;border:0;border-radius:3px}
.k0{--c:var(--s0)}.k1{--c:var(--s1)}.k2{--c:var(--s2)}.k3{--c:var(--s3)}.k4{--c:var(--s4)}.k5{--c:var(--s5)}.k6{
  --c:var(--s6)}.k7{--c:var(--s7)}
.curve{stroke:var(--c)}.dot{fill:var(--c);stroke:var(--card);stroke-width:1.5}.legend i{border-color:var(--c)}
  .legend i.box{background:var(--c)}
.part{background:var(--c)}
.shares{display:grid;grid-template-columns:max-content 1fr;gap:8px 12px;align-items:center;font-size:13px}
.bar{display:flex;height:24px;border-radius:6px;overflow:hidden;background:var(--grid)}
.part{display:flex;align-items:center;justify-content:center;color:#fff;font-size:11.5px;font-weight:600;
  min-width:1px;overflow:hidden;white-space:nowrap}
@media (prefers-color-scheme:dark){.part{color:#10151c}}
.cell{fill:var(--accent)}
.cell.off{fill:var(--s1)}
.heat{max-width:900px;margin:0 auto}
.heat text{font-size:10px}
.scroll{overflow:auto;max-height:560px;scrollbar-width:thin;scrollbar-color:var(--soft) var(--grid);
  background:linear-gradient(90deg,var(--card) 30%,transparent) 0 0/40px 100% no-repeat local,
  linear-gradient(270deg,var(--card) 30%,transparent) 100% 0/40px 100% no-repeat local,
  linear-gradient(90deg,var(--line),transparent) 0 0/14px 100% no-repeat scroll,
  linear-gradient(270deg,var(--line),transparent) 100% 0/14px 100% no-repeat scroll}
.across{overflow-x:auto}
.scroll::-webkit-scrollbar{height:9px;width:9px}
.scroll::-webkit-scrollbar-track{background:var(--grid)}
.scroll::-webkit-scrollbar-thumb{background:var(--soft);border-radius:5px}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;font-weight:600;color:var(--soft);font-size:12.5px;position:sticky;top:0;background:var(--card);
  z-index:1}
th,td{padding:6px 10px;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
tbody tr:hover td{background:var(--grid)}
tr:has(.num) td:first-child{white-space:nowrap}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.texts{max-height:640px;overflow:auto}
.text{padding:9px 0;border-bottom:1px solid var(--line)}.text:last-child{border-bottom:0}
.utt{font-size:12.5px;color:var(--soft)}
del{color:var(--bad);text-decoration:line-through}ins{color:var(--good);text-decoration:underline;
  text-underline-offset:3px}
.sub del{margin-right:.3em}
summary{cursor:pointer;font-weight:600;font-size:14px}
pre{font:12.5px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow:auto;
  margin:12px 0 0;max-height:560px}
#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--bg);font-size:12.5px;line-height:1.45;
  padding:6px 10px;border-radius:8px;
white-space:pre;z-index:9;font-variant-numeric:tabular-nums;max-width:90vw}
@container (max-width:460px){svg.lines text{font-size:14.5px}svg.heat{min-width:640px}}
@container (max-width:380px){svg.lines text{font-size:18px}}
@media (max-width:820px){main{grid-template-columns:minmax(0,1fr)}header,main{padding-left:14px;padding-right:14px}}
@media print{body{background:#fff}.card,.figure{box-shadow:none;break-inside:avoid}.scroll,.texts,pre{
  max-height:none}}
)css";
}

// Shows the values nearest to the pointer in charts, and titles of heat map cells at once.
std::string_view PageScript() {
  return R"js(
(function(){
var tip=document.getElementById('tip');
function show(e,text){tip.textContent=text;tip.hidden=false;
 var w=tip.offsetWidth,h=tip.offsetHeight,x=e.clientX+14,y=e.clientY-h-10;
 if(x+w>innerWidth-8)x=e.clientX-w-14;if(y<8)y=e.clientY+16;tip.style.left=Math.max(8,x)+'px';tip.style.top=y+'px';}
function hide(){tip.hidden=true;}
function number(v){var a=Math.abs(v);return a>=1e5||a>0&&a<1e-3?v.toExponential(3):String(+v.toPrecision(5));}
document.querySelectorAll('svg[data-chart]').forEach(function(svg){
 var d=JSON.parse(svg.getAttribute('data-chart')),line=svg.querySelector('.cross');
 svg.addEventListener('mousemove',function(e){
  var box=svg.getBoundingClientRect(),px=(e.clientX-box.left)/box.width*d.width;
  var x=d.x0+(px-d.left)/(d.right-d.left)*(d.x1-d.x0),best=null;
  d.series.forEach(function(s){s.p.forEach(function(p){
    if(best===null||Math.abs(p[0]-x)<Math.abs(best-x))best=p[0];});});
  if(best===null)return;
  var rows=[d.x_label+' '+number(d.log?Math.pow(10,best):best)];
  d.series.forEach(function(s){var near=null;s.p.forEach(function(p){
    if(p[1]!==null&&(near===null||Math.abs(p[0]-best)<Math.abs(near[0]-best)))near=p;});
   if(near&&Math.abs(near[0]-best)<=(d.x1-d.x0)/40)rows.push(s.n+': '+number(near[1]));});
  var cx=d.left+(best-d.x0)/((d.x1-d.x0)||1)*(d.right-d.left);line.setAttribute('x1',cx);
    line.setAttribute('x2',cx);line.style.visibility='visible';
  show(e,rows.join('\n'));});
 svg.addEventListener('mouseleave',function(){line.style.visibility='hidden';hide();});});
document.querySelectorAll('[data-tip]').forEach(function(el){
 el.addEventListener('mousemove',function(e){show(e,el.getAttribute('data-tip'));});
   el.addEventListener('mouseleave',hide);});
})();
)js";
}

}  // namespace antiphon::report::internal
